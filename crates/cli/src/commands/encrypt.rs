//! `riddle encrypt`, `riddle decrypt`.

use riddle_doors::journal::Journal;
use riddle_rag::{
    Library,
    encryption::{self, Protection},
};
use serde_json::json;

use crate::{
    args::{EncryptArgs, new_passphrase_of_environment, passphrase_of_environment},
    context::Context,
    failure::Failure,
    passphrase,
    progress::Progress,
};

/// Encrypts the home, or changes what opens it.
pub(crate) fn run(args: EncryptArgs, context: &Context) -> Result<(), Failure> {
    let config = &context.config;
    let change = args.change || args.forget;
    if encryption::protection(config)? == Protection::None {
        if change {
            return Err(Failure::run(format!(
                "{} is not encrypted: `riddle encrypt` does that",
                config.home.display()
            )));
        }
        return encrypt(args, context);
    }
    if !change && !args.keyring {
        return Err(Failure::run(format!(
            "{} is encrypted already: --change gives it another passphrase, --keyring has the system keep its key",
            config.home.display()
        )));
    }
    if !passphrase::unlock(context)? {
        let path = config.home.join("catalog.sqlite");
        return Err(riddle_rag::Error::sealed(&path).into());
    }
    let said = if args.forget {
        match encryption::forget_key(config)? {
            true => "the keyring has forgotten the key: the passphrase is asked for from now on",
            false => "the keyring did not keep the key",
        }
    } else if args.no_passphrase {
        encryption::change_passphrase(config, None)?;
        "the keyring keeps the key, and no passphrase opens this home any more"
    } else if args.keyring {
        encryption::remember_key(config)?;
        "the keyring keeps the key: nobody is asked for the passphrase on this computer"
    } else {
        encryption::change_passphrase(config, Some(&new_passphrase(true)?))?;
        "the passphrase is changed"
    };
    tell(context, said)
}

/// The passphrase that a home gets.
fn new_passphrase(is_change: bool) -> Result<String, Failure> {
    let given =
        if is_change { new_passphrase_of_environment() } else { passphrase_of_environment() };
    match given {
        Some(given) => Ok(given),
        None if passphrase::can_ask() => passphrase::ask_new(),
        None if is_change => Err(Failure::run(
            "nobody can be asked for the new passphrase: give it in RIDDLE_NEW_PASSPHRASE",
        )),
        None => Err(Failure::run(
            "nobody can be asked for a passphrase: give one in RIDDLE_PASSPHRASE, or use --keyring --no-passphrase",
        )),
    }
}

fn encrypt(args: EncryptArgs, context: &Context) -> Result<(), Failure> {
    let config = &context.config;
    let passphrase = if args.no_passphrase { None } else { Some(new_passphrase(false)?) };
    // What programs have asked is written down beside what is encrypted: no longer, and no more.
    let journal = Journal::of(&config.home, false).files();
    encryption::encrypt(config, passphrase.as_deref(), args.keyring, &journal)?;
    rebuild(context)?;
    let kept = match (passphrase.is_some(), args.keyring) {
        (true, false) => "by its passphrase: without it nobody reads it again, you neither",
        (true, true) => "by its passphrase, and the keyring keeps the key",
        (false, _) => "by a key that the keyring keeps",
    };
    tell(context, &format!("{} is encrypted {kept}", config.home.display()))
}

/// Takes it back.
pub(crate) fn decrypt(context: &Context) -> Result<(), Failure> {
    encryption::decrypt(&context.config)?;
    rebuild(context)?;
    tell(context, &format!("{} is no longer encrypted", context.config.home.display()))
}

/// Makes the indexes anew, in the form that the catalog has now.
fn rebuild(context: &Context) -> Result<(), Failure> {
    let mut library = Library::open(context.config.clone())?;
    let mut progress = Progress::new();
    let done = library.rebuild_indexes(&mut |event| progress.index(&event));
    progress.clear();
    Ok(done?)
}

fn tell(context: &Context, said: &str) -> Result<(), Failure> {
    if !context.json {
        return context.out.text(format!("{said}\n"));
    }
    let protection = encryption::protection(&context.config)?;
    let by_passphrase = match protection {
        Protection::None => false,
        Protection::Locked { by_passphrase } | Protection::Unlocked { by_passphrase } => {
            by_passphrase
        }
    };
    context.out.json(&json!({
        "encrypted": protection.is_encrypted(),
        "by_passphrase": by_passphrase,
        "done": said,
    }))
}

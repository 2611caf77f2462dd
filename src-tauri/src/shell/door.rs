//! Other programs: the door, who may come in, what was asked.

use std::path::PathBuf;

use riddle_doors::{
    clients::{Client, Clients, May, tool_names},
    journal::{Entry, Journal, Outcome},
};
use riddle_rag::encryption::is_encrypted;
use riddle_types::Reader;

use super::Shell;
use crate::{
    dto::{
        DoorAdded, DoorClient, DoorEntry, DoorMay, DoorOutcome, DoorReader, DoorState, Failure,
        FailureCode,
    },
    failure::Reply,
};

/// Setting: the door is to be open.
const OPEN: &str = "desktop.door";

/// Lines of the log that are shown.
const SHOWN: usize = 50;

impl Shell {
    /// What there is to see.
    pub(crate) fn door(&self) -> Reply<DoorState> {
        let (clients, log) = (self.clients(), self.journal());
        let entries = log.last(None, SHOWN).map_err(Failure::other)?;
        let client = |it: &Client| DoorClient {
            name: it.name.clone(),
            since: it.since,
            revoked: it.revoked,
            has_token: it.has_token(),
            may: DoorMay {
                tools: it.may.tools.clone(),
                folders: it.may.folders.iter().map(|it| it.display().to_string()).collect(),
                with_confined: it.may.with_confined,
            },
            reads_as: it.reader.clone().map(|it| DoorReader { user: it.user, groups: it.groups }),
            last_asked: entries
                .iter()
                .find(|entry| entry.known && entry.client == it.name)
                .map(|it| it.at / 1000),
        };
        let clients = clients.all().map_err(Failure::other)?.iter().map(client).collect();
        Ok(DoorState {
            url: self.door.url(),
            token_file: self.config.home.join("doors.token").display().to_string(),
            tools: tool_names().into_iter().map(str::to_owned).collect(),
            clients,
            log: entries.into_iter().map(entry).collect(),
        })
    }

    /// Opens the door or closes it, now and whenever the app starts.
    pub(crate) fn switch_door(&self, open: bool) -> Reply<DoorState> {
        if open {
            self.open_door()?;
        } else {
            self.door.close();
        }
        self.records.set_setting(OPEN, open.then_some("1"))?;
        self.door()
    }

    /// Opens the door at the start of the app, where a person has left it open.
    pub(crate) fn open_door_at_start(&self) {
        if self.records.setting(OPEN).ok().flatten().is_some()
            && let Err(failure) = self.open_door()
        {
            tracing::warn!("other programs can not ask: {}", failure.message);
        }
    }

    fn open_door(&self) -> Reply<()> {
        let forget_questions = !self.settings_now().keep_history;
        self.door.open(self.config.clone(), self.engine.lender(), forget_questions)
    }

    /// Lets a program in; its token is told this once.
    pub(crate) fn add_client(
        &self,
        name: &str,
        may: &DoorMay,
        reads_as: Option<DoorReader>,
    ) -> Reply<DoorAdded> {
        let known = self.clients().named(name.trim()).map_err(Failure::other)?;
        if known.is_some() {
            return Err(Failure::bad("there is a program of this name already"));
        }
        let token =
            self.clients().put_as(name, of(may), reads_as.map(reader), true).map_err(wrong)?;
        Ok(DoorAdded { token: token.unwrap_or_default(), state: self.door()? })
    }

    /// Changes what a program may see, and with whose rights.
    pub(crate) fn set_client(
        &self,
        name: &str,
        may: &DoorMay,
        reads_as: Option<DoorReader>,
    ) -> Reply<DoorState> {
        let clients = self.clients();
        let known = clients.named(name).map_err(Failure::other)?;
        let known = known.ok_or_else(|| Failure::gone("this program is gone"))?;
        // What this page does not show stays as it is.
        let may = May { types: known.may.types, ..of(may) };
        // Whose rights first: somebody who is none is refused before anything is changed.
        clients.read_as(name, reads_as.map(reader)).map_err(wrong)?;
        clients.put(name, may, false).map_err(wrong)?;
        if known.revoked {
            clients.revoke(name, true).map_err(wrong)?;
        }
        self.door()
    }

    /// Sends a program away, or lets it in again.
    pub(crate) fn revoke_client(&self, name: &str, revoked: bool) -> Reply<DoorState> {
        self.clients().revoke(name, revoked).map_err(wrong)?;
        self.door()
    }

    /// Forgets a program.
    pub(crate) fn remove_client(&self, name: &str) -> Reply<DoorState> {
        self.clients().remove(name).map_err(wrong)?;
        self.door()
    }

    /// Empties the log.
    pub(crate) fn forget_door_log(&self) -> Reply<DoorState> {
        self.journal().forget().map_err(Failure::other)?;
        self.door()
    }

    fn clients(&self) -> Clients {
        Clients::of(&self.config.home)
    }

    fn journal(&self) -> Journal {
        Journal::of(&self.config.home, !is_encrypted(&self.config))
    }
}

fn of(may: &DoorMay) -> May {
    May {
        tools: may.tools.clone(),
        folders: may.folders.iter().map(PathBuf::from).collect(),
        with_confined: may.with_confined,
        ..May::default()
    }
}

fn reader(of: DoorReader) -> Reader {
    Reader { user: of.user, groups: of.groups }
}

fn wrong(error: riddle_doors::Error) -> Failure {
    let code = match &error {
        riddle_doors::Error::BadRequest(_) | riddle_doors::Error::TooLarge(_) => {
            FailureCode::BadRequest
        }
        riddle_doors::Error::NotFound(_) => FailureCode::NotFound,
        _ => FailureCode::Other,
    };
    Failure::new(code, error.to_string())
}

fn entry(it: Entry) -> DoorEntry {
    DoorEntry {
        at: it.at / 1000,
        client: it.client,
        known: it.known,
        what: it.what,
        asked: it.asked,
        passages: u32::try_from(it.passages).unwrap_or(u32::MAX),
        ms: u32::try_from(it.ms).unwrap_or(u32::MAX),
        outcome: match it.outcome {
            Outcome::Answered => DoorOutcome::Answered,
            Outcome::Refused => DoorOutcome::Refused,
            Outcome::Failed => DoorOutcome::Failed,
        },
    }
}

//! `riddle folders`.

use std::path::{Path, PathBuf};

use riddle_rag::{Library, Records, records::FolderStatus};
use serde_json::json;

use crate::{
    args::{FoldersArgs, FoldersCommand},
    context::Context,
    failure::Failure,
    output::Style,
    show,
};

/// Lists the folders, or changes one first.
pub(crate) fn run(args: &FoldersArgs, context: &Context) -> Result<(), Failure> {
    let records = Records::open(context.config.clone())?;
    let done = match &args.command {
        None | Some(FoldersCommand::List) => None,
        Some(FoldersCommand::Confine { folder }) => {
            let folder = records.confine(&absolute(folder)?, true)?;
            let known = records.folders()?;
            let inside =
                known.iter().any(|it| folder.starts_with(&it.path) || it.path.starts_with(&folder));
            let later = if inside { "" } else { " (it is not indexed; the mark holds when it is)" };
            Some(format!("{} never leaves this machine from now on{later}", shown(&folder)))
        }
        Some(FoldersCommand::Release { folder }) => {
            let folder = records.confine(&absolute(folder)?, false)?;
            Some(format!("{} may be sent to endpoints that you allow", shown(&folder)))
        }
        Some(FoldersCommand::Remove { folder }) => {
            let folder = absolute(folder)?;
            Library::open(context.config.clone())?.remove_root(&folder)?;
            Some(format!("{} is forgotten; its files stay", shown(&folder)))
        }
    };
    let (folders, confined) = (records.folders()?, records.confined()?);
    if context.json {
        let text = |it: &PathBuf| it.to_string_lossy().into_owned();
        let folders: Vec<_> = folders
            .iter()
            .map(|it| {
                let mut folder =
                    json!({ "path": text(&it.path), "present": it.present, "confined": it.confined });
                if let Some(minutes) = it.looked_at_every {
                    folder["looked_at_every"] = minutes.into();
                }
                folder
            })
            .collect();
        let confined: Vec<_> = confined.iter().map(text).collect();
        return context.out.json(&json!({ "folders": folders, "confined": confined }));
    }
    context.out.text(match done {
        Some(done) => format!("{done}\n"),
        None => page(&folders, &confined, context.style),
    })
}

fn absolute(folder: &Path) -> std::io::Result<PathBuf> {
    std::path::absolute(folder)
}

fn shown(folder: &Path) -> String {
    show::path(&folder.to_string_lossy())
}

fn page(folders: &[FolderStatus], confined: &[PathBuf], style: Style) -> String {
    let mut page = String::new();
    for folder in folders {
        let gone = match (folder.present, folder.removable) {
            (true, _) => "",
            (false, true) => ", on a removable disk that is away",
            (false, false) => ", not there now",
        };
        let here = if folder.confined { ", never leaves this machine" } else { "" };
        let share = show::share(folder.looked_at_every);
        let counts: std::collections::BTreeMap<_, _> =
            folder.counts.iter().map(|(state, count)| (state.as_str(), *count)).collect();
        let files = show::states(&counts);
        page.push_str(&format!(
            "{} ({files}{gone}{share}{here})\n",
            style.cyan(shown(&folder.path))
        ));
    }
    // Parts of indexed folders, and such as are not indexed.
    for part in confined.iter().filter(|it| !folders.iter().any(|folder| folder.path == **it)) {
        page.push_str(&format!("{} (never leaves this machine)\n", style.cyan(shown(part))));
    }
    if page.is_empty() {
        page.push_str("no folder is indexed yet: run `riddle index FOLDER`\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use riddle_rag::records::RootId;
    use riddle_types::FileState;

    use super::*;

    #[test]
    fn marked_folders_and_marked_parts_are_listed() {
        let folder = |path: &str, confined, looked_at_every| FolderStatus {
            id: RootId(1),
            path: PathBuf::from(path),
            present: true,
            confined,
            counts: vec![(FileState::Indexed, 2)],
            looked_at_every,
            removable: path.starts_with("/media/"),
        };
        let marks = [PathBuf::from("/a"), PathBuf::from("/b/medical")];
        let folders = [folder("/a", true, None), folder("/b", false, Some(5))];
        let shown = page(&folders, &marks, Style::with_colors(false));
        assert_eq!(
            shown,
            "/a (2 indexed, never leaves this machine)\n\
             /b (2 indexed, on a network share: looked at every 5 minutes)\n/b/medical (never leaves this machine)\n"
        );
        let away = FolderStatus { present: false, ..folder("/media/mira/STICK", false, None) };
        let shown = page(&[away], &[], Style::with_colors(false));
        assert_eq!(shown, "/media/mira/STICK (2 indexed, on a removable disk that is away)\n");
        assert!(page(&[], &[], Style::with_colors(false)).contains("riddle index FOLDER"));
    }
}

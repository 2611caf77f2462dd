//! Letters that the networks have not learned, read by the program Tesseract where a person has installed it.
//!
//! Tesseract wants a language to be named. Its own look at a page tells the script and how the page lies
//! (`--psm 0`, for which its data `osd` is needed); of each script the installed languages are tried together.

use std::{
    ffi::OsStr,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{Line, Picture, Read};

/// Longest time for one look at a page: a page of A4 takes a second or two.
const TIME: Duration = Duration::from_secs(50);

/// Most that it says of a page; ten times what a full one is.
const MOST_SAID: u64 = 8 << 20;

/// More languages at once take longer and are read less surely.
const MOST_LANGUAGES: usize = 3;

/// Languages by the names that Tesseract gives scripts, those of most people first.
const SCRIPTS: [(&str, &[&str]); 17] = [
    ("Cyrillic", &["rus", "ukr", "bul", "srp", "bel", "mkd", "kaz", "script/Cyrillic"]),
    ("Arabic", &["ara", "fas", "urd", "script/Arabic"]),
    ("Devanagari", &["hin", "mar", "nep", "san", "script/Devanagari"]),
    ("Greek", &["ell", "grc", "script/Greek"]),
    ("Korean", &["kor", "script/Hangul"]),
    ("Hangul", &["kor", "script/Hangul"]),
    ("Hebrew", &["heb", "yid", "script/Hebrew"]),
    ("Thai", &["tha", "script/Thai"]),
    ("Bengali", &["ben", "asm", "script/Bengali"]),
    ("Tamil", &["tam", "script/Tamil"]),
    ("Telugu", &["tel", "script/Telugu"]),
    ("Kannada", &["kan", "script/Kannada"]),
    ("Malayalam", &["mal", "script/Malayalam"]),
    ("Gujarati", &["guj", "script/Gujarati"]),
    ("Gurmukhi", &["pan", "script/Gurmukhi"]),
    ("Georgian", &["kat", "script/Georgian"]),
    ("Armenian", &["hye", "script/Armenian"]),
];

/// The program, and the languages that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tesseract {
    program: PathBuf,
    languages: Vec<String>,
}

/// Where the program lies among `folders`, which are `PATH`'s.
pub fn find_tesseract(folders: Option<&OsStr>) -> Option<PathBuf> {
    let name = format!("tesseract{}", std::env::consts::EXE_SUFFIX);
    // A relative folder would be one beside the file that is read.
    let folders = std::env::split_paths(folders?).filter(|it| it.is_absolute());
    folders.map(|it| it.join(&name)).find(|it| it.is_file())
}

impl Tesseract {
    /// The program at `path`, if it runs and has letters that the networks have not.
    pub fn open(path: &Path) -> Option<Tesseract> {
        let said = ask(Command::new(path).arg("--list-langs"), &[])?;
        let languages: Vec<String> = said.lines().skip(1).map(|it| it.trim().to_owned()).collect();
        let tesseract = Tesseract { program: path.to_path_buf(), languages };
        let any = SCRIPTS.iter().any(|it| !tesseract.of_script(it.1).is_empty());
        any.then_some(tesseract)
    }

    /// What a picture says in letters that the networks have not learned; `None` where it says nothing, or in none for
    /// which a language is installed. `turned`: how many quarters against the clock it is thought to lie.
    pub fn read(&self, picture: &Picture, turned: u32) -> Option<Read> {
        let bytes = picture.as_pnm();
        if let Some((script, turned)) = self.look(&bytes) {
            let known = SCRIPTS.iter().find(|it| it.0 == script)?;
            let languages = self.of_script(known.1);
            if languages.is_empty() {
                return None;
            }
            return self.read_as(picture, &languages, turned);
        }
        // Of a page with few letters it does not say; then all scripts are tried, upright and on its head.
        let all: Vec<&str> =
            SCRIPTS.iter().filter_map(|it| self.of_script(it.1).first().copied()).collect();
        let mut languages = all;
        languages.dedup();
        languages.truncate(2 * MOST_LANGUAGES);
        let upright = self.read_as(picture, &languages, turned % 4);
        let upended = self.read_as(picture, &languages, (turned + 2) % 4);
        let sure = |it: &Option<Read>| it.as_ref().map_or(0.0, Read::sure);
        if sure(&upended) > sure(&upright) { upended } else { upright }
    }

    fn of_script(&self, languages: &[&'static str]) -> Vec<&'static str> {
        let installed = |it: &&str| self.languages.iter().any(|other| other == it);
        languages.iter().copied().filter(installed).take(MOST_LANGUAGES).collect()
    }

    /// The script of a page, and the quarters against the clock by which it has to be turned.
    fn look(&self, picture: &[u8]) -> Option<(String, u32)> {
        let said = ask(self.command().args(["-l", "osd", "--psm", "0"]), picture)?;
        let of =
            |name: &str| said.lines().find_map(|it| Some(it.strip_prefix(name)?.trim().to_owned()));
        let degrees: u32 = of("Orientation in degrees:")?.parse().ok()?;
        Some((of("Script:")?, degrees / 90 % 4))
    }

    fn read_as(&self, picture: &Picture, languages: &[&str], turned: u32) -> Option<Read> {
        let mut upright = picture.clone();
        for _ in 0..turned {
            upright = upright.turned();
        }
        let said = ask(
            self.command().args(["-l", &languages.join("+"), "--psm", "3", "tsv"]),
            &upright.as_pnm(),
        )?;
        let (width, height) = upright.size();
        let lines = lines(&said, width as f32, height as f32);
        let aspect = width as f32 / height as f32;
        (!lines.is_empty()).then_some(Read { lines, turned, aspect, unread: 0.0 })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // One thread: others read files meanwhile.
        command.env("OMP_THREAD_LIMIT", "1").args(["stdin", "stdout"]);
        command
    }
}

/// What the program says when it is given `bytes`; `None` when it fails, or takes too long.
fn ask(command: &mut Command, bytes: &[u8]) -> Option<String> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let said = std::thread::scope(|scope| {
        // It may say something before it has heard all. One that ends early takes no more, which is no error.
        scope.spawn(move || input.map(|mut it| it.write_all(bytes)));
        let said = scope.spawn(move || {
            let mut said = Vec::new();
            output?.take(MOST_SAID).read_to_end(&mut said).ok()?;
            Some(said)
        });
        let succeeded = wait(&mut child);
        said.join().ok().flatten().filter(|_| succeeded)
    })?;
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// Waits for its end, and brings it about after [`TIME`].
fn wait(child: &mut Child) -> bool {
    let end = Instant::now() + TIME;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Lines of a table of words: level, page, block, paragraph, line, word, left, top, width, height, sureness, text.
fn lines(table: &str, width: f32, height: f32) -> Vec<Line> {
    const WORD: &str = "5";
    let mut lines: Vec<(&[&str], Line, f32)> = Vec::new();
    let rows: Vec<Vec<&str>> = table.lines().map(|it| it.split('\t').collect()).collect();
    for row in rows.iter().filter(|it| it.len() == 12 && it[0] == WORD) {
        let number = |at: usize| row[at].parse::<f32>().ok().filter(|it| it.is_finite());
        let text = row[11].trim();
        let [Some(left), Some(top), Some(wide), Some(high), Some(sure)] =
            [6, 7, 8, 9, 10].map(number)
        else {
            continue;
        };
        if text.is_empty() || sure < 0.0 {
            continue;
        }
        let place = [left / width, top / height, (left + wide) / width, (top + high) / height];
        let place = place.map(|it| it.clamp(0.0, 1.0));
        let letters = text.chars().count() as f32;
        let sure = (sure / 100.0).min(1.0) * letters;
        match lines.last_mut().filter(|it| it.0 == &row[1..5]) {
            Some((_, line, all)) => {
                line.text.push(' ');
                line.text.push_str(text);
                let [left, top, right, bottom] = line.place;
                line.place = [
                    left.min(place[0]),
                    top.min(place[1]),
                    right.max(place[2]),
                    bottom.max(place[3]),
                ];
                line.sure += sure;
                *all += letters;
            }
            None => lines.push((&row[1..5], Line { text: text.to_owned(), sure, place }, letters)),
        }
    }
    lines.into_iter().map(|(_, line, all)| Line { sure: line.sure / all, ..line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_lines_with_their_places() {
        let head = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n";
        let table = format!(
            "{head}4\t1\t1\t1\t1\t0\t10\t10\t80\t20\t-1\t\n\
             5\t1\t1\t1\t1\t1\t60\t10\t30\t20\t90\tعقد\n\
             5\t1\t1\t1\t1\t2\t10\t12\t40\t18\t60\tهذا\n\
             5\t1\t1\t1\t2\t1\t10\t40\t10\t10\tnan\tx\n\
             5\t1\t1\t1\t2\t1\t10\t40\t10\t10\t95\t \n\
             5\t1\t1\t1\t3\t1\t900\t40\t10\t10\t95\tend\nnonsense\t5\n"
        );
        let lines = lines(&table, 100.0, 50.0);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0].text, "عقد هذا");
        assert_eq!(lines[0].place, [0.1, 0.2, 0.9, 0.6]);
        assert!((lines[0].sure - 0.75).abs() < 1e-6, "{lines:?}");
        assert_eq!(lines[1].place, [1.0, 0.8, 1.0, 1.0], "inside of the picture");
    }

    #[test]
    fn only_a_program_in_a_folder_of_the_path_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(find_tesseract(None), None);
        assert_eq!(find_tesseract(Some(folder.path().as_os_str())), None);
        let program = folder.path().join(format!("tesseract{}", std::env::consts::EXE_SUFFIX));
        std::fs::write(&program, "").expect("written");
        assert_eq!(find_tesseract(Some(folder.path().as_os_str())), Some(program.clone()));
        assert_eq!(find_tesseract(Some(OsStr::new("."))), None);
        assert_eq!(Tesseract::open(&program), None, "it does not run");
    }

    /// A program that looks and speaks like it.
    #[cfg(unix)]
    #[test]
    fn a_page_is_read_in_the_languages_of_its_script() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("tesseract");
        let script = "#!/bin/sh\ncase \"$*\" in\n\
            --list-langs) printf 'List of available languages (3):\\neng\\nosd\\nrus\\nukr\\n' ;;\n\
            *'psm 0'*) cat > /dev/null; printf 'Orientation in degrees: 90\\nScript: Cyrillic\\n' ;;\n\
            *'-l rus+ukr'*) head -c 6 | tr '\\n' ' ' > /dev/null; cat > /dev/null\n\
               printf '5\\t1\\t1\\t1\\t1\\t1\\t1\\t0\\t1\\t1\\t96\\tдоговор\\n' ;;\n\
            *) exit 1 ;;\nesac\n";
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
        let tesseract = Tesseract::open(&program).expect("it runs");
        let picture = Picture::new(4, 2, vec![255; 24]).expect("a picture");
        let read = tesseract.read(&picture, 0).expect("read");
        assert_eq!((read.turned, read.aspect), (1, 0.5), "it lies on its side");
        assert_eq!(read.lines[0].text, "договор");
        let latin = Tesseract { languages: vec!["eng".to_owned()], ..tesseract };
        assert_eq!(latin.read(&picture, 0), None, "no language for that script");
    }
}

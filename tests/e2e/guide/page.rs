//! A page of the documents, taken apart: commands in blocks, commands and flags between backticks.
//!
//! A block that begins with ```` ```sh ```` is run line by line; lines that end in `\` or `|` go on. A comment
//! `<!-- not run: REASON -->` above it has it checked and not run. Other blocks hold no commands.

/// What a page says about commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// Lines for a shell, in order.
    pub(super) lines: Vec<Line>,
    /// Text between backticks, outside blocks, with its line.
    pub(super) spans: Vec<(usize, String)>,
    /// What can not be understood.
    pub(super) problems: Vec<String>,
}

/// A line for a shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Where it begins, from 1.
    pub(super) number: usize,
    pub(super) text: String,
    /// Why it is not run.
    pub(super) not_run: Option<String>,
}

const NOT_RUN: &str = "<!-- not run:";

impl Page {
    pub(super) fn of(text: &str) -> Page {
        let mut page = Page::default();
        let mut not_run: Option<String> = None;
        let mut prose = String::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            if let Some(reason) = line.strip_prefix(NOT_RUN) {
                not_run = Some(reason.trim_end_matches("-->").trim().to_owned());
                continue;
            }
            let Some(language) = line.trim_start().strip_prefix("```") else {
                prose.push_str(line);
                prose.push('\n');
                if !line.is_empty() && not_run.take().is_some() {
                    page.problems.push(format!("line {}: no block after `not run`", index + 1));
                }
                continue;
            };
            // Keeps the numbers of lines.
            prose.push('\n');
            let block: Vec<(usize, &str)> = lines
                .by_ref()
                .take_while(|(_, it)| !it.trim_start().starts_with("```"))
                .inspect(|_| prose.push('\n'))
                .map(|(index, it)| (index + 1, it))
                .collect();
            prose.push('\n');
            page.block(language.trim(), &block, not_run.take());
        }
        page.spans = spans(&prose);
        page
    }

    fn block(&mut self, language: &str, block: &[(usize, &str)], not_run: Option<String>) {
        if language != "sh" {
            let commands = block.iter().filter(|(_, it)| is_riddle(it));
            self.problems.extend(commands.map(|(number, it)| {
                format!("line {number}: `{it}` stands in a block that no test runs: make it ```sh")
            }));
            return;
        }
        let mut open: Option<Line> = None;
        for &(number, text) in block {
            let line = open.take().map_or_else(
                || Line { number, text: text.to_owned(), not_run: not_run.clone() },
                |line| Line { text: format!("{}\n{text}", line.text), ..line },
            );
            if text.trim_end().ends_with(['\\', '|']) {
                open = Some(line);
            } else if !text.trim().is_empty() {
                self.lines.push(line);
            }
        }
        self.lines.extend(open);
    }
}

/// Whether a line of a block is a command of the program.
pub(super) fn is_riddle(line: &str) -> bool {
    line.trim_start().starts_with("riddle ")
}

/// What stands between backticks, also across the end of a line.
fn spans(prose: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut line = 1;
    for paragraph in prose.split("\n\n") {
        for (index, part) in paragraph.split('`').enumerate() {
            if index % 2 == 1 {
                found.push((line, part.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
            line += part.matches('\n').count();
        }
        line += 2;
    }
    found
}

#[test]
fn a_page_is_taken_apart() {
    let text = "# A `riddle one`\n\n```sh\nriddle two \\\n  three # four\n\necho 5 |\n  riddle six\n```\n\
                or `--seven\neight`\n\n<!-- not run: because -->\n```sh\nriddle nine\n```\n";
    let page = Page::of(text);
    let lines: Vec<_> =
        page.lines.iter().map(|it| (it.number, &*it.text, it.not_run.as_deref())).collect();
    assert_eq!(
        lines,
        [
            (4, "riddle two \\\n  three # four", None),
            (7, "echo 5 |\n  riddle six", None),
            (15, "riddle nine", Some("because")),
        ]
    );
    let spans: Vec<_> = page.spans.iter().map(|(line, it)| (*line, &**it)).collect();
    assert_eq!(spans, [(1, "riddle one"), (10, "--seven eight")]);
    assert_eq!(page.problems, [""; 0]);
}

#[test]
fn a_command_that_no_test_would_run_is_found() {
    assert_eq!(Page::of("```\nriddle x\n```\n").problems.len(), 1);
    assert_eq!(Page::of("```text\nriddle x\n```\n").problems.len(), 1);
    assert_eq!(Page::of("<!-- not run: x -->\nprose\n").problems.len(), 1);
}

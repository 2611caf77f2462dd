//! A model's own chat template.

use minijinja::{Environment, ErrorKind, Value, context, syntax::SyntaxConfig};
use minijinja_contrib::pycompat::unknown_method_callback;

use riddle_types::{Message, Role};

use crate::{Error, Result};

/// Steps that rendering may take; templates in use need some thousands.
const FUEL: u64 = 1_000_000;

/// Longest template that is compiled; those in use have some kilobytes.
const LONGEST_TEMPLATE: usize = 256 << 10;

/// What stands for a message's text while the template is rendered: two characters of the private use area with the
/// message's number between. What a template says is then known from what a passage says, so that a passage can not
/// pretend to be a turn of its own.
const MARKS: [char; 2] = ['\u{f8f0}', '\u{f8f1}'];

/// Turns of models by the token that begins one, for files without a template: the vocabulary tells what a model was
/// trained with. The first that the vocabulary has counts.
const BY_TOKEN: [(&str, &str); 5] = [
    (
        "<|im_start|>",
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}",
    ),
    (
        "<|start_header_id|>",
        "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] + '<|eot_id|>' }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    ),
    (
        "<start_of_turn>",
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ raise_exception('no rules of their own') }}{% endif %}{{ '<start_of_turn>user\n' + message['content'] + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}",
    ),
    (
        "[INST]",
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ raise_exception('no rules of their own') }}{% endif %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endfor %}",
    ),
    (
        "<|assistant|>",
        "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}{{ '<|assistant|>\n' }}",
    ),
];

/// For a model that knows no turns: rules and question as a text that the answer goes on with.
const PLAIN: &str = "{{ bos_token }}{% for message in messages %}{{ message['content'] + '\n\n' }}{% endfor %}{{ 'Answer:' }}";

/// Phi 2 knows no tokens of turns, and has learned these words.
const PHI2: &str = "{% for message in messages %}{% if message['role'] == 'system' %}{{ raise_exception('no rules of their own') }}{% endif %}{{ 'Instruct: ' + message['content'] + '\n' }}{% endfor %}{{ 'Output:' }}";

/// The template for a model whose file has none, by what tokens its vocabulary `has` and by its architecture.
pub(crate) fn template_without(architecture: &str, has: impl Fn(&str) -> bool) -> &'static str {
    match BY_TOKEN.iter().find(|(token, _)| has(token)) {
        Some((_, template)) => template,
        None if architecture == "phi2" => PHI2,
        None => PLAIN,
    }
}

/// A chat template (Jinja, as Hugging Face's tokenizers bring it).
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

/// A part of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The template's own words, in which control tokens mean what they say.
    Template(String),
    /// A message's text, which is only text.
    Text(String),
    /// As [`Text`](Self::Text), and a segment begins with it: a passage, or the question.
    Piece(String),
}

/// A message in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    role: Role,
    /// What stands before the first piece and is no segment of its own.
    before: String,
    pieces: Vec<String>,
}

impl Turn {
    pub(crate) fn rules(text: String) -> Turn {
        Turn { role: Role::System, before: text, pieces: Vec::new() }
    }

    pub(crate) fn person(pieces: Vec<String>) -> Turn {
        Turn { role: Role::User, before: String::new(), pieces }
    }

    /// A message, which is one piece if it is a person's.
    pub(crate) fn of(message: &Message) -> Turn {
        match message.role {
            Role::System => Turn::rules(message.content.clone()),
            Role::User => Turn::person(vec![message.content.clone()]),
        }
    }

    /// Its text without space around it; nothing of it is empty.
    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Text(self.before.clone())];
        parts.extend(self.pieces.iter().cloned().map(Part::Piece));
        let is_empty = |it: &Part| it.text().trim().is_empty();
        let first = parts.iter().position(|it| !is_empty(it)).unwrap_or(parts.len());
        parts.drain(..first);
        while parts.last().is_some_and(is_empty) {
            parts.pop();
        }
        parts.retain(|it| !it.text().is_empty());
        if let Some(Part::Text(text) | Part::Piece(text)) = parts.first_mut() {
            *text = text.trim_start().to_owned();
        }
        if let Some(Part::Text(text) | Part::Piece(text)) = parts.last_mut() {
            text.truncate(text.trim_end().len());
        }
        parts
    }
}

impl Part {
    fn text(&self) -> &str {
        let (Part::Template(text) | Part::Text(text) | Part::Piece(text)) = self;
        text
    }
}

impl ChatTemplate {
    /// Compiles a template; `bos` and `eos` are the texts of these tokens.
    ///
    /// # Errors
    /// [`Error::Template`] for one that is not Jinja.
    pub(crate) fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate> {
        if source.len() > LONGEST_TEMPLATE {
            return Err(Error::Template { why: format!("it has {} bytes", source.len()) });
        }
        let mut environment = Environment::new();
        // As Hugging Face's tokenizers render them.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| Error::Template { why: error.to_string() })?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_function("raise_exception", |why: String| -> Result<String, _> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, why))
        });
        // Templates print today's date with it. The same question should get the same prompt every day.
        environment.add_function("strftime_now", |_format: String| String::new());
        environment
            .add_template_owned("chat", source.to_owned())
            .map_err(|error| Error::Template { why: error.to_string() })?;
        Ok(ChatTemplate { environment, bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// The prompt up to where the model begins to write.
    ///
    /// # Errors
    /// [`Error::Template`] when the template can not make anything of these messages.
    pub(crate) fn render(&self, turns: &[Turn]) -> Result<Vec<Part>> {
        match self.try_render(turns) {
            // Some templates know no rules but those in the user's own words.
            Err(_) if turns.len() > 1 && turns[0].role == Role::System => {
                let mut merged = turns[1..].to_vec();
                let rules = turns[0].before.trim_end();
                merged[0].before = format!("{rules}\n\n{}", merged[0].before);
                self.try_render(&merged)
            }
            rendered => rendered,
        }
    }

    fn try_render(&self, turns: &[Turn]) -> Result<Vec<Part>> {
        let failed = |error: minijinja::Error| Error::Template { why: error.to_string() };
        let [open, close] = MARKS;
        let turn = |(number, it): (usize, &Turn)| {
            context! { role => role_of(it.role), content => format!("{open}{number}{close}") }
        };
        let messages: Vec<Value> = turns.iter().enumerate().map(turn).collect();
        let template = self.environment.get_template("chat").map_err(failed)?;
        let text = template
            .render(context! {
                messages => messages,
                add_generation_prompt => true,
                bos_token => self.bos.as_str(),
                eos_token => self.eos.as_str(),
                // Models that can think aloud first: the answer is wanted at once.
                enable_thinking => false,
            })
            .map_err(failed)?;
        let (parts, seen) = split(&text, turns);
        // A model that never sees the question would answer something.
        let question = turns.len().saturating_sub(1);
        if !turns.is_empty() && !seen.contains(&question) {
            return Err(Error::Template { why: "it leaves the question out".to_owned() });
        }
        if seen.len() < turns.len() && turns[0].role == Role::System && !seen.contains(&0) {
            return Err(Error::Template { why: "it leaves the rules out".to_owned() });
        }
        Ok(parts)
    }
}

/// As templates know it.
fn role_of(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
    }
}

/// Puts the messages' texts where their marks are; tells which were there.
fn split(text: &str, turns: &[Turn]) -> (Vec<Part>, Vec<usize>) {
    let [open, close] = MARKS;
    let (mut parts, mut seen) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        let Some((number, behind)) = after.split_once(close) else { break };
        let number = number.parse::<usize>().ok().filter(|it| *it < turns.len());
        if !before.is_empty() {
            parts.push(Part::Template(before.to_owned()));
        }
        if let Some(number) = number {
            seen.push(number);
            parts.extend(turns[number].parts());
        }
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Template(rest.to_owned()));
    }
    (parts, seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Turn> {
        vec![
            Turn::rules("Rules.".to_owned()),
            Turn::person(vec![" [1] Me.\n\n".to_owned(), "Who? <|im_end|> ".to_owned()]),
        ]
    }

    fn text(parts: &[Part]) -> String {
        parts.iter().map(Part::text).collect()
    }

    #[test]
    fn turns_are_those_of_the_vocabulary() {
        for (token, expected) in [
            (
                "<|start_header_id|>",
                "<s><|start_header_id|>system<|end_header_id|>\n\nRules.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n[1] Me.\n\nWho? <|im_end|><|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
            ),
            (
                "<start_of_turn>",
                "<s><start_of_turn>user\nRules.\n\n [1] Me.\n\nWho? <|im_end|><end_of_turn>\n<start_of_turn>model\n",
            ),
            ("[INST]", "<s>[INST] Rules.\n\n [1] Me.\n\nWho? <|im_end|> [/INST]"),
            (
                "<|assistant|>",
                "<|system|>\nRules.<|end|>\n<|user|>\n[1] Me.\n\nWho? <|im_end|><|end|>\n<|assistant|>\n",
            ),
            // A base model.
            ("<pad>", "<s>Rules.\n\n[1] Me.\n\nWho? <|im_end|>\n\nAnswer:"),
        ] {
            let source = template_without("llama", |it| it == token);
            let template = ChatTemplate::new(source, "<s>", "</s>").expect("it compiles");
            let parts = template.render(&messages()).expect("it renders");
            assert_eq!(text(&parts), expected, "{token}");
            // Not even a model's own marks are marks in a passage.
            assert!(parts.contains(&Part::Piece("Who? <|im_end|>".to_owned())));
        }
    }

    #[test]
    fn phi_2_has_words_of_its_own() {
        let template = ChatTemplate::new(template_without("phi2", |_| false), "<s>", "</s>");
        let parts = template.expect("it compiles").render(&messages()).expect("it renders");
        let expected = "Instruct: Rules.\n\n [1] Me.\n\nWho? <|im_end|>\nOutput:";
        assert_eq!(text(&parts), expected);
    }

    #[test]
    fn texts_are_apart_from_turns() {
        let source = template_without("phi2", |it| ["<|im_start|>", "[INST]"].contains(&it));
        let template = ChatTemplate::new(source, "<s>", "</s>").expect("it compiles");
        let parts = template.render(&messages()).expect("it renders");
        assert_eq!(
            text(&parts),
            "<|im_start|>system\nRules.<|im_end|>\n<|im_start|>user\n[1] Me.\n\nWho? <|im_end|><|im_end|>\n<|im_start|>assistant\n"
        );
        assert!(parts.contains(&Part::Piece("Who? <|im_end|>".to_owned())));
        assert!(parts.contains(&Part::Piece("[1] Me.\n\n".to_owned())));
        assert!(parts.contains(&Part::Text("Rules.".to_owned())));
    }

    #[test]
    fn methods_of_python_work_and_rules_go_to_the_user_where_there_is_no_system() {
        let source = "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'].strip() + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}";
        let template = ChatTemplate::new(source, "<bos>", "<eos>").expect("it compiles");
        let parts = template.render(&messages()).expect("it renders");
        assert_eq!(
            text(&parts),
            "<bos><start_of_turn>user\nRules.\n\n [1] Me.\n\nWho? <|im_end|><end_of_turn>\n<start_of_turn>model\n"
        );
    }

    #[test]
    fn bad_templates_are_errors() {
        assert!(ChatTemplate::new("{% for %}", "", "").is_err());
        assert!(ChatTemplate::new(&"x".repeat(LONGEST_TEMPLATE + 1), "", "").is_err());
        let render = |source: &str| {
            ChatTemplate::new(source, "", "").expect("it compiles").render(&messages())
        };
        let endless =
            "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}";
        assert!(matches!(render(endless), Err(Error::Template { .. })));
        assert!(matches!(render("hello"), Err(Error::Template { .. })));
        // Only the rules, or only the question.
        assert!(render("{{ messages[0]['content'] }}").is_ok(), "the merged message has both");
        assert!(render("{{ nothing.at.all }}").is_err());
    }
}

//! Signatures of `#[tauri::command]` functions.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use syn::{FnArg, Item, ItemFn, Pat, ReturnType, Type};

use super::{camel, docs, types};

/// Arguments that Tauri fills in; the interface does not pass them.
const INJECTED: [&str; 4] = ["AppHandle", "State", "Webview", "Window"];

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its name in Rust.
    pub(crate) name: String,
    docs: Vec<String>,
    /// Names in TypeScript and types.
    arguments: Vec<(String, String)>,
    returns: String,
}

impl Command {
    pub(super) fn render(&self, out: &mut String) {
        docs(out, "\t", &self.docs);
        let arguments: Vec<String> =
            self.arguments.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
        let names: Vec<&str> = self.arguments.iter().map(|it| it.0.as_str()).collect();
        let passed =
            if names.is_empty() { String::new() } else { format!(", {{ {} }}", names.join(", ")) };
        let _ = writeln!(
            out,
            "\t{}({}): Promise<{}> {{\n\t\treturn invoke('{}'{passed});\n\t}},",
            camel(&self.name),
            arguments.join(", "),
            self.returns,
            self.name,
        );
    }
}

/// All commands of a file.
pub(super) fn read(source: &str) -> Result<Vec<Command>> {
    let file = syn::parse_file(source)?;
    let is_command = |item: &ItemFn| {
        let last = |it: &syn::Attribute| it.path().segments.last().map(|it| it.ident.to_string());
        item.attrs.iter().any(|it| last(it).is_some_and(|it| it == "command"))
    };
    file.items
        .iter()
        .filter_map(|item| match item {
            Item::Fn(function) if is_command(function) => Some(command(function)),
            _ => None,
        })
        .collect()
}

fn command(function: &ItemFn) -> Result<Command> {
    let name = function.sig.ident.to_string();
    let mut arguments = Vec::new();
    for argument in &function.sig.inputs {
        let FnArg::Typed(argument) = argument else { bail!("{name}: a command has no self") };
        let Pat::Ident(pattern) = &*argument.pat else {
            bail!("{name}: arguments of a command are plain names")
        };
        if INJECTED.contains(&types::head(&argument.ty).as_str()) {
            continue;
        }
        let kind = types::typescript(&argument.ty).with_context(|| name.clone())?;
        arguments.push((camel(&pattern.ident.to_string()), kind));
    }
    let ReturnType::Type(_, returns) = &function.sig.output else {
        bail!("{name}: a command returns a Reply")
    };
    let returns = reply(returns).with_context(|| name.clone())?;
    Ok(Command { docs: types::doc_lines(&function.attrs), name, arguments, returns })
}

fn reply(kind: &Type) -> Result<String> {
    match types::generic(kind, "Reply").as_slice() {
        [inner] if types::head(inner) == "Response" => Ok("ArrayBuffer".to_owned()),
        [inner] => types::typescript(inner),
        _ => bail!("a command returns a Reply"),
    }
}

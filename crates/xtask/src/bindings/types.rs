//! Types of the contract: structs with named fields, and two shapes of enums.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use syn::{
    Attribute, Expr, Fields, GenericArgument, Item, ItemEnum, ItemStruct, Lit, Meta, PathArguments,
    Type,
};

use super::{camel, docs};

/// Every struct and enum of the file.
pub(super) fn render(source: &str) -> Result<String> {
    let file = syn::parse_file(source)?;
    let mut out = String::new();
    for item in &file.items {
        match item {
            Item::Struct(it) => {
                structure(it, &mut out).with_context(|| it.ident.to_string())?;
            }
            Item::Enum(it) => enumeration(it, &mut out).with_context(|| it.ident.to_string())?,
            _ => {}
        }
    }
    Ok(out)
}

fn structure(item: &ItemStruct, out: &mut String) -> Result<()> {
    if serde_value(&item.attrs, "rename_all").as_deref() != Some("camelCase") {
        bail!("types of the contract carry #[serde(rename_all = \"camelCase\")]");
    }
    out.push('\n');
    docs(out, "", &doc_lines(&item.attrs));
    let _ = writeln!(out, "export interface {} {{", item.ident);
    for (name, kind, lines) in fields(&item.fields)? {
        docs(out, "\t", &lines);
        let _ = writeln!(out, "\t{name}: {kind};");
    }
    out.push_str("}\n");
    Ok(())
}

fn enumeration(item: &ItemEnum, out: &mut String) -> Result<()> {
    if serde_value(&item.attrs, "rename_all").as_deref() != Some("camelCase") {
        bail!("types of the contract carry #[serde(rename_all = \"camelCase\")]");
    }
    let tag = serde_value(&item.attrs, "tag");
    out.push('\n');
    docs(out, "", &doc_lines(&item.attrs));
    let Some(tag) = tag else {
        let mut names = Vec::new();
        for variant in &item.variants {
            if !matches!(variant.fields, Fields::Unit) {
                bail!("{}: an enum with fields has a tag", variant.ident);
            }
            names.push(format!("'{}'", variant_name(&variant.ident.to_string())));
        }
        let _ = writeln!(out, "export type {} = {};", item.ident, names.join(" | "));
        return Ok(());
    };
    if serde_value(&item.attrs, "rename_all_fields").as_deref() != Some("camelCase") {
        bail!("a tagged enum carries rename_all_fields = \"camelCase\"");
    }
    let _ = write!(out, "export type {} =", item.ident);
    for variant in &item.variants {
        out.push('\n');
        docs(out, "\t", &doc_lines(&variant.attrs));
        let _ = write!(out, "\t| {{ {tag}: '{}'", variant_name(&variant.ident.to_string()));
        if !matches!(variant.fields, Fields::Unit) {
            for (name, kind, _) in fields(&variant.fields)? {
                let _ = write!(out, "; {name}: {kind}");
            }
        }
        out.push_str(" }");
    }
    out.push_str(";\n");
    Ok(())
}

/// Name, type and docs of each field.
fn fields(fields: &Fields) -> Result<Vec<(String, String, Vec<String>)>> {
    let Fields::Named(named) = fields else { bail!("fields of the contract have names") };
    named
        .named
        .iter()
        .map(|field| {
            let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let kind = typescript(&field.ty).with_context(|| name.clone())?;
            Ok((camel(&name), kind, doc_lines(&field.attrs)))
        })
        .collect()
}

/// A Rust type as TypeScript.
pub(super) fn typescript(kind: &Type) -> Result<String> {
    if let Type::Tuple(tuple) = kind {
        if tuple.elems.is_empty() {
            return Ok("void".to_owned());
        }
        let parts = tuple.elems.iter().map(typescript).collect::<Result<Vec<_>>>()?;
        return Ok(format!("[{}]", parts.join(", ")));
    }
    let name = head(kind);
    let inner = generic(kind, &name);
    Ok(match (name.as_str(), inner.as_slice()) {
        ("String", []) => "string".to_owned(),
        ("bool", []) => "boolean".to_owned(),
        ("u8" | "u16" | "u32" | "u64" | "i32" | "i64" | "usize" | "f32" | "f64", []) => {
            "number".to_owned()
        }
        ("Option", [inner]) => format!("{} | null", typescript(inner)?),
        ("Vec", [inner]) => {
            let inner = typescript(inner)?;
            if inner.contains('|') { format!("({inner})[]") } else { format!("{inner}[]") }
        }
        ("BTreeMap", [key, value]) if head(key) == "String" => {
            format!("{{ [key: string]: {} }}", typescript(value)?)
        }
        ("Channel", [inner]) => format!("Channel<{}>", typescript(inner)?),
        (name, []) if name.starts_with(|it: char| it.is_ascii_uppercase()) && known(name) => {
            name.to_owned()
        }
        _ => bail!("{name}: the generator knows no TypeScript for this"),
    })
}

/// Names of the standard library that look like a type of ours.
fn known(name: &str) -> bool {
    !["HashMap", "HashSet", "BTreeSet", "PathBuf", "Path", "Duration", "Value"].contains(&name)
}

/// The last name of a type's path.
pub(super) fn head(kind: &Type) -> String {
    match kind {
        Type::Path(path) => {
            path.path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default()
        }
        Type::Reference(reference) => head(&reference.elem),
        _ => String::new(),
    }
}

/// The type arguments of a type of that name.
pub(super) fn generic<'a>(kind: &'a Type, name: &str) -> Vec<&'a Type> {
    let Type::Path(path) = kind else { return Vec::new() };
    let Some(last) = path.path.segments.last().filter(|it| it.ident == name) else {
        return Vec::new();
    };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Vec::new() };
    arguments
        .args
        .iter()
        .filter_map(|it| if let GenericArgument::Type(kind) = it { Some(kind) } else { None })
        .collect()
}

/// The lines of a doc comment.
pub(super) fn doc_lines(attributes: &[Attribute]) -> Vec<String> {
    attributes
        .iter()
        .filter(|it| it.path().is_ident("doc"))
        .filter_map(|it| match &it.meta {
            Meta::NameValue(pair) => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(text) => Some(text.value().trim().to_owned()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// The value of `key` in `#[serde(…)]`.
fn serde_value(attributes: &[Attribute], key: &str) -> Option<String> {
    let mut found = None;
    for attribute in attributes.iter().filter(|it| it.path().is_ident("serde")) {
        // What is not understood here is serde's to judge.
        let _ = attribute.parse_nested_meta(|meta| {
            if meta.input.peek(syn::Token![=]) {
                let value: Lit = meta.value()?.parse()?;
                if let (true, Lit::Str(text)) = (meta.path.is_ident(key), value) {
                    found = Some(text.value());
                }
            }
            Ok(())
        });
    }
    found
}

/// A variant as serde's `camelCase` writes it.
fn variant_name(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|it| it.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

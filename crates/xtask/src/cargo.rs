//! What cargo knows about the workspace, as plain values that a test can write down.

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::repository;

/// A member of the workspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Member {
    /// Package name without the `riddle-` prefix, as the docs call the crate.
    pub(crate) name: String,
    /// Path of its `Cargo.toml`, relative to the root.
    pub(crate) manifest: String,
    /// Paths of the root files of its library and programs (not of tests and examples).
    pub(crate) roots: Vec<String>,
    /// What it declares that it depends on.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of `[dependencies]`, `[build-dependencies]` or `[dev-dependencies]`.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    /// Name; for members of the workspace without the `riddle-` prefix.
    pub(crate) name: String,
    /// A member of this workspace.
    pub(crate) ours: bool,
    /// Only for tests, examples and benchmarks.
    pub(crate) dev: bool,
}

impl Member {
    /// Folder of the crate, with a slash at the end.
    pub(crate) fn folder(&self) -> &str {
        self.manifest.strip_suffix("Cargo.toml").unwrap_or(&self.manifest)
    }
}

/// Asks cargo about this workspace.
pub(crate) fn members() -> Result<Vec<Member>> {
    let root = repository::root();
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    let relative = |path: &cargo_metadata::camino::Utf8Path| {
        path.strip_prefix(&metadata.workspace_root).unwrap_or(path).as_str().replace('\\', "/")
    };
    let members = metadata.packages.iter().map(|package| Member {
        name: short(&package.name).to_owned(),
        manifest: relative(&package.manifest_path),
        roots: package
            .targets
            .iter()
            .filter(|target| target.is_lib() || target.is_bin())
            .map(|target| relative(&target.src_path))
            .collect(),
        dependencies: package
            .dependencies
            .iter()
            .map(|dependency| Dependency {
                name: short(&dependency.name).to_owned(),
                ours: dependency.path.is_some(),
                dev: dependency.kind == DependencyKind::Development,
            })
            .collect(),
    });
    Ok(members.collect())
}

fn short(name: &str) -> &str {
    name.strip_prefix("riddle-").unwrap_or(name)
}

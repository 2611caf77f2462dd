//! `riddle models use` for a server: one that reranks, or embeds.

use riddle_rag::{
    Library,
    rerank::{RequestReranker, RerankDocument, RerankRequest, RerankSettings},
    servers::{EmbedPrompts, StageServer},
};
use riddle_types::SilentObserver;
use serde_json::json;

use crate::{context::Context, failure::Failure, show, words};

/// Has it rerank searches from now on. It is asked once, about nothing of the person's: whether it answers is good to
/// know now, and not at the first search.
pub(super) fn choose(server: &StageServer, may: bool, context: &Context) -> Result<(), Failure> {
    if may {
        context.allow_endpoint(&server.url)?;
    }
    let mut library = Library::open(context.config.clone())?;
    let name = server.name();
    library.choose_reranker(Some(&name))?;
    let here = library.reranker_here()?;
    drop(library);
    let tried = try_it(&name, context);
    if context.json {
        let problem = tried.as_ref().err().map(words::told);
        let said = json!({
            "reranker": name, "here": here, "answers": tried.is_ok(),
            "model": tried.as_ref().ok().map(|it| &it.0), "problem": problem,
        });
        return context.out.json(&said);
    }
    let (name, here) = (show::clean(&name), show::clean(&here));
    context.out.line(format_args!(
        "searches are reranked by {name} from now on, and by {here} where it is not"
    ))?;
    context.out.line(match tried {
        Ok((model, ms)) => format!("it answers: {}, in {ms:.0} ms", show::clean(&model)),
        Err(error) => format!("it does not answer now: {}", show::clean(&words::told(&error))),
    })
}

/// Who answers, and in how many milliseconds.
fn try_it(name: &str, context: &Context) -> riddle_rag::Result<(String, f64)> {
    let text = |it: &str| RerankDocument::Text(it.to_owned());
    let request = RerankRequest {
        query: "What is blue?".to_owned(),
        documents: vec![text("The sky is blue."), text("Bread needs a day.")],
        top_n: None,
    };
    let settings = RerankSettings::default();
    let mut reranker = RequestReranker::new(&context.config, name, &settings, false)?;
    let answer = reranker.rerank(&request, &mut SilentObserver)?;
    Ok((answer.model, answer.remote.map_or(0.0, |it| it.ms)))
}

/// Has it embed from now on. It is asked once, about nothing of the person's: without its answer nothing changes.
pub(super) fn choose_embedder(
    server: &StageServer,
    may: bool,
    prompts: Option<EmbedPrompts>,
    context: &Context,
) -> Result<(), Failure> {
    if may {
        context.allow_embedder(&server.url)?;
    }
    let mut library = Library::open(context.config.clone())?;
    let asked = library.choose_embedding_server(server, prompts)?;
    let name = server.name();
    if context.json {
        return context
            .out
            .json(&json!({ "embedder": name, "model": asked.model, "ms": asked.ms }));
    }
    context.out.line(format_args!(
        "the next `riddle index` embeds with {}; until it is done searches use the vectors there are",
        show::clean(&name)
    ))?;
    context.out.line(format_args!(
        "it answers: {}, in {:.0} ms",
        show::clean(asked.model.as_deref().unwrap_or_default()),
        asked.ms
    ))
}

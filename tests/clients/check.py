"""Asks a served library with clients that others wrote, unchanged: openai, cohere, huggingface_hub, mcp, and the
rerankers of LangChain and LlamaIndex.

    riddle serve --port 7438
    python tests/clients/check.py URL TOKEN RIDDLE HOME [CLIENT...]

The library is the one of the end-to-end tests (`tests/e2e/doors`). Prints a line for each client, or for those that are
named. Fails with the first thing that is not as it should be, a client that is not installed included.
"""

import asyncio
import importlib.metadata
import sys

URL, TOKEN, RIDDLE, HOME, *NAMED = sys.argv[1:]
TEXTS = ["The hull is blue.", "Rye bread rests.", "A boat has a blue hull."]
QUESTION = "How much does the winter mooring cost a year?"


def with_openai():
    import openai

    client = openai.OpenAI(base_url=f"{URL}/v1", api_key=TOKEN, max_retries=0)
    assert client.models.list().data[0].id == "riddle"
    one = client.embeddings.create(model="riddle", input="The hull is blue.")
    many = client.embeddings.create(model="riddle", input=TEXTS, encoding_format="float")
    assert len(many.data) == 3
    close = max(abs(a - b) for a, b in zip(one.data[0].embedding, many.data[0].embedding))
    assert close < 1e-5, close
    try:
        client.embeddings.create(model="riddle", input="x", dimensions=3)
        raise AssertionError("3 dimensions")
    except openai.BadRequestError as error:
        assert "dimensions" in str(error)
    messages = [{"role": "user", "content": QUESTION}]
    whole = client.chat.completions.create(model="riddle", messages=messages)
    said = whole.choices[0].message
    assert "640" in said.content, said
    assert said.annotations[0].url_citation.url.startswith("riddle://passage/")
    pieces, usage = [], None
    options = {"include_usage": True}
    for chunk in client.chat.completions.create(
        model="riddle", messages=messages, stream=True, stream_options=options
    ):
        pieces += [it.delta.content for it in chunk.choices if it.delta.content]
        usage = chunk.usage or usage
    assert "".join(pieces).strip() == said.content.strip(), pieces
    assert usage.total_tokens > 0
    response = client.responses.create(model="riddle", input=QUESTION)
    assert response.output_text == said.content, response
    events = list(client.responses.create(model="riddle", input=QUESTION, stream=True))
    assert events[-1].type == "response.completed", events[-1]
    assert events[-1].response.output_text == said.content
    # A stream that is left is closed, and the next request is served.
    stream = client.chat.completions.create(model="riddle", messages=messages, stream=True)
    next(iter(stream))
    stream.close()
    try:
        openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong", max_retries=0).models.list()
        raise AssertionError("a wrong key")
    except openai.AuthenticationError as error:
        assert "token" in str(error)
    return openai.__version__


def with_cohere():
    import cohere

    scores = []
    for client in (cohere.ClientV2(TOKEN, base_url=URL), cohere.Client(TOKEN, base_url=URL)):
        ranked = client.rerank(model="riddle", query="Which hull?", documents=TEXTS, top_n=2)
        assert len(ranked.results) == 2
        scores.append([(it.index, it.relevance_score) for it in ranked.results])
    assert scores[0] == scores[1], scores
    assert scores[0][0][1] >= scores[0][1][1]
    try:
        cohere.ClientV2(TOKEN, base_url=URL).rerank(model="riddle", query="", documents=TEXTS)
        raise AssertionError("an empty query")
    except cohere.errors.BadRequestError as error:
        assert "query" in str(error.body)
    try:
        cohere.ClientV2("wrong", base_url=URL).rerank(model="riddle", query="q", documents=TEXTS)
        raise AssertionError("a wrong key")
    except cohere.errors.UnauthorizedError:
        pass
    return importlib.metadata.version("cohere")


def with_huggingface():
    import huggingface_hub

    client = huggingface_hub.InferenceClient(model=f"{URL}/embed", token=TOKEN)
    vector = client.feature_extraction("The hull is blue.")
    assert vector.shape[0] == 1 and vector.shape[1] > 1, vector.shape
    chat = huggingface_hub.InferenceClient(base_url=f"{URL}/v1", api_key=TOKEN)
    said = chat.chat_completion([{"role": "user", "content": QUESTION}], model="riddle")
    assert "640" in said.choices[0].message.content
    return huggingface_hub.__version__


async def conversation(session):
    await session.initialize()
    tools = (await session.list_tools()).tools
    names = [it.name for it in tools]
    assert names == ["search", "read", "answer", "check_claims", "rerank", "status"], names
    assert all(dict_of(it.annotations)["readOnlyHint"] for it in tools)
    # The client holds what is structured against the schemas that were listed.
    found = dict_of(await session.call_tool("search", {"query": "winter mooring", "limit": 1}))
    passage = found["structuredContent"]["passages"][0]
    assert "640" in passage["text"], found
    for name, arguments in [
        ("read", {"id": passage["id"], "after": 1}),
        ("answer", {"question": QUESTION}),
        ("answer", {"question": "Who is the emperor of Xanadu?"}),
        ("check_claims", {"claims": ["The hull is painted blue."]}),
        ("rerank", {"query": "q", "documents": TEXTS}),
        ("status", {}),
    ]:
        result = dict_of(await session.call_tool(name, arguments))
        assert not result["isError"], result
        assert result["structuredContent"], result
    wrong = dict_of(await session.call_tool("search", {"query": "x", "path": "/etc"}))
    assert wrong["isError"], wrong
    templates = dict_of(await session.list_resource_templates())["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "riddle://passage/{id}"
    read = dict_of(await session.read_resource(passage["uri"]))
    assert "640" in read["contents"][0]["text"]


def dict_of(model):
    return model.model_dump(mode="json", by_alias=True)


async def over_pipe():
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=RIDDLE, args=["--home", HOME, "--offline", "mcp", "--alone"]
    )
    async with stdio_client(parameters) as (read, write):
        async with ClientSession(read, write) as session:
            await conversation(session)


async def over_http():
    import httpx
    from mcp import ClientSession
    from mcp.client import streamable_http

    # Older versions of the client take headers, newer ones a client that has them.
    if hasattr(streamable_http, "streamable_http_client"):
        client = httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
        opened = streamable_http.streamable_http_client(f"{URL}/mcp", http_client=client)
    else:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        opened = streamable_http.streamablehttp_client(f"{URL}/mcp", headers=headers)
    async with opened as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await conversation(session)


def with_mcp():
    asyncio.run(over_pipe())
    asyncio.run(over_http())
    return importlib.metadata.version("mcp")


def with_langchain():
    from langchain_cohere import CohereRerank
    from langchain_core.documents import Document
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    reranker = CohereRerank(base_url=URL, cohere_api_key=TOKEN, model="riddle", top_n=2)
    documents = [Document(page_content=it) for it in TEXTS]
    ranked = reranker.compress_documents(documents, "Which hull?")
    assert len(ranked) == 2, ranked
    assert ranked[0].metadata["relevance_score"] >= ranked[1].metadata["relevance_score"]
    chat = ChatOpenAI(base_url=f"{URL}/v1", api_key=TOKEN, model="riddle", max_retries=0)
    assert "640" in chat.invoke(QUESTION).content
    # Without the check it would send numbers of OpenAI's tokens, which mean another word to each model.
    embeddings = OpenAIEmbeddings(
        base_url=f"{URL}/v1", api_key=TOKEN, model="riddle", check_embedding_ctx_length=False
    )
    vectors = embeddings.embed_documents(TEXTS)
    assert len(vectors) == 3 and len(vectors[0]) > 1
    return importlib.metadata.version("langchain-core")


def with_llama_index():
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.postprocessor.cohere_rerank import CohereRerank
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

    tei = TextEmbeddingInference(top_n=2, base_url=URL, auth_token=f"Bearer {TOKEN}")
    cohere = CohereRerank(top_n=2, model="riddle", api_key=TOKEN, base_url=URL)
    orders = []
    for reranker in (tei, cohere):
        nodes = [NodeWithScore(node=TextNode(text=it), score=0.0) for it in TEXTS]
        ranked = reranker.postprocess_nodes(nodes, query_str="Which hull?")
        orders.append([it.node.get_content() for it in ranked])
    assert len(orders[0]) == 2 and orders[0] == orders[1], orders
    return importlib.metadata.version("llama-index-core")


def main():
    for name, check in [
        ("openai", with_openai),
        ("cohere", with_cohere),
        ("huggingface_hub", with_huggingface),
        ("mcp", with_mcp),
        ("langchain_cohere", with_langchain),
        ("llama_index", with_llama_index),
    ]:
        if NAMED and name not in NAMED:
            continue
        print(f"ok: {name} {check()}", flush=True)


main()

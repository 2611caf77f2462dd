import "./lib/locale";

import "@fontsource-variable/inter";
import "@fontsource-variable/jetbrains-mono";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shared.css";

import { mount } from "svelte";

import App from "./App.svelte";

// Only the build for browser tests and screenshots has a backend of its own.
if (import.meta.env.MODE === "mock") {
  const { install } = await import("./mock/install");
  install();
}

const target = document.getElementById("app");
if (!target) throw new Error("index.html has no #app");
mount(App, { target });

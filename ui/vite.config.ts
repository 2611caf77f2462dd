import { join } from "node:path";

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig } from "vitest/config";

/** The policy of the app's window; `src-tauri/tauri.conf.json` sends the same one with the real app. */
export const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  // The mock build reads its one PDF as the app would over IPC.
  "connect-src 'self' ipc: http://ipc.localhost",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-src 'none'",
  "object-src 'none'",
].join("; ");

export default defineConfig(({ mode }) => ({
  plugins: [svelte(), svelteTesting()],
  resolve: { alias: { $lib: join(import.meta.dirname, "src/lib") } },
  assetsInclude: ["**/*.bcmap", "**/*.pfb"],
  clearScreen: false,
  server: { fs: { allow: [".."] }, port: 5173, strictPort: true, host: "127.0.0.1" },
  preview: { port: 4173, strictPort: false, host: "127.0.0.1", headers: { "Content-Security-Policy": CSP } },
  build: {
    target: "safari16.4",
    // The policy has no room for inlined fonts and images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1500,
    // Minified builds are for release; the mock build is read in stack traces.
    minify: mode !== "mock",
  },
  test: {
    environment: "jsdom",
    include: ["tests/unit/**/*.test.ts"],
    setupFiles: ["tests/unit/setup.ts"],
    // No test measures time; on a busy machine the whole app takes its time to draw.
    testTimeout: 60_000,
  },
}));

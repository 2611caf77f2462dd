import { cpSync, createReadStream, existsSync } from "node:fs";
import { join } from "node:path";

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig, type Plugin } from "vitest/config";

/** The policy of the app's window; `src-tauri/tauri.conf.json` sends the same one with the real app. */
export const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "worker-src 'self'",
  "connect-src 'self' ipc: http://ipc.localhost",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/**
 * Puts pdf.js's character maps and standard fonts beside the build: without them PDFs that do not embed
 * their fonts, and most East Asian ones, would come out blank.
 */
function pdfAssets(): Plugin {
  const from = join(import.meta.dirname, "node_modules/pdfjs-dist");
  const folders = ["cmaps", "standard_fonts"];
  let out = "dist";
  return {
    name: "riddle-pdf-assets",
    configResolved(config) {
      out = config.build.outDir;
    },
    configureServer(server) {
      server.middlewares.use("/pdf", (request, response, next) => {
        const path = (request.url ?? "").split("?")[0] ?? "";
        const file = join(from, path);
        if (file.startsWith(from) && folders.some((it) => path.startsWith(`/${it}/`)) && existsSync(file)) {
          createReadStream(file).pipe(response);
        } else next();
      });
    },
    writeBundle() {
      for (const folder of folders) {
        cpSync(join(from, folder), join(import.meta.dirname, out, "pdf", folder), { recursive: true });
      }
    },
  };
}

export default defineConfig(({ mode }) => ({
  plugins: [svelte(), svelteTesting(), pdfAssets()],
  resolve: { alias: { $lib: join(import.meta.dirname, "src/lib") } },
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
  },
}));

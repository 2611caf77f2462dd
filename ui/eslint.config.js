import svelte from "eslint-plugin-svelte";
import tseslint from "typescript-eslint";

import svelteConfig from "./svelte.config.js";

export default tseslint.config(
  { ignores: ["dist", "dist-mock", "node_modules", "src/lib/bindings.ts"] },
  ...tseslint.configs.strict,
  ...svelte.configs.recommended,
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: tseslint.parser, extraFileExtensions: [".svelte"], svelteConfig } },
  },
  {
    rules: {
      // What is written by others is text here, never markup.
      "svelte/no-at-html-tags": "error",
      // The policy forbids style attributes; `style:` directives set properties and are fine.
      "svelte/prefer-style-directive": "error",
      "svelte/no-useless-mustaches": "off",
      "no-console": "error",
      "no-eval": "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "svelte/prefer-svelte-reactivity": "off",
      "@typescript-eslint/no-confusing-void-expression": "off",
    },
  },
  {
    files: ["scripts/**", "tests/**", "src/mock/**"],
    rules: { "no-console": "off" },
  },
);

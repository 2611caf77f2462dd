import "@testing-library/jest-dom/vitest";
import "../../src/lib/locale";

import { cleanup, configure } from "@testing-library/svelte";
import { clearMocks } from "@tauri-apps/api/mocks";
import { afterEach } from "vitest";

configure({ asyncUtilTimeout: 20_000 });

// What jsdom does not have.
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) {
  this.open = false;
};
Element.prototype.scrollIntoView ??= () => undefined;
Element.prototype.scrollTo ??= () => undefined;
Element.prototype.animate ??= () => ({ cancel() {}, finished: Promise.resolve() }) as unknown as Animation;
Element.prototype.getAnimations ??= () => [];
window.matchMedia ??= (query: string) =>
  ({ matches: false, media: query, addEventListener() {}, removeEventListener() {} }) as unknown as MediaQueryList;
window.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
};

afterEach(async () => {
  cleanup();
  // What waits for a frame and then for a message (the time to the first rows) would otherwise find no window any more.
  await new Promise((resolve) => requestAnimationFrame(resolve));
  await new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve(undefined);
    };
    channel.port2.postMessage(null);
  });
  await new Promise((resolve) => setTimeout(resolve, 0));
  clearMocks();
});

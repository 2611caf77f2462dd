// Writing to a shared library goes on while other views are looked at: what it does is known here and not in a view.

import { app, sentence } from "./app.svelte";
import { Channel, commands, type Failure, type PushEvent, type PushReport } from "./bindings";

/** What is being written. */
interface Running {
  name: string;
  done: number;
  /** 0 before it is known. */
  total: number;
  stopping: boolean;
}

/** How the last run ended. */
type Ended = { name: string; report: PushReport } | { name: string; failure: Failure };

class Push {
  running = $state.raw<Running | null>(null);
  ended = $state.raw<Ended | null>(null);

  /** Writes this computer's passages to a library. */
  begin(name: string, takeOver: boolean, anew: boolean) {
    this.ended = null;
    this.running = { name, done: 0, total: 0, stopping: false };
    const events = new Channel<PushEvent>();
    events.onmessage = (event) => {
      if (event.event === "progress") {
        if (this.running) this.running = { ...this.running, done: event.done, total: event.total };
        return;
      }
      this.running = null;
      this.ended = event.event === "done" ? { name, report: event.report } : { name, failure: event.failure };
    };
    commands.sharedPush(name, takeOver, anew, events).catch((error: unknown) => {
      this.running = null;
      app.say(sentence(error), "bad");
    });
  }

  stop() {
    if (this.running) this.running = { ...this.running, stopping: true };
    void app.try(() => commands.sharedPushStop());
  }
}

export const push = new Push();

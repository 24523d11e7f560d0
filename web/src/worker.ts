// Lays out scopes beside the page, so that it never stops.

import { layOut, type Task } from "./layout";

self.onmessage = (event: MessageEvent<{ id: number; task: Task }>) => {
  self.postMessage({ id: event.data.id, placed: layOut(event.data.task) });
};

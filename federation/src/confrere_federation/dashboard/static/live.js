// A run's part of the page is replaced by what the dashboard sends when its file has changed.
"use strict";
const part = document.getElementById("run");
if (part && part.dataset.events) {
  const line = new EventSource(part.dataset.events);
  line.addEventListener("run", (event) => { part.innerHTML = event.data; });
}

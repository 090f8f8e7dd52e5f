// The desk follows every change: the form is sent, and the drawn page takes the place of the shown.
"use strict";
const main = document.querySelector("main");
const typed = () => String(new URLSearchParams(new FormData(document.querySelector("form"))));
let busy = false;
let changed = false;

function show(text) {
  const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  const { name, selectionStart } = document.activeElement;
  main.replaceChildren(...next.childNodes);
  const field = name && main.querySelector(`[name="${CSS.escape(name)}"]`);
  if (!field) return;
  field.focus();
  if (field.tagName === "INPUT") field.setSelectionRange(selectionStart, selectionStart);
}

main.addEventListener("change", async () => {
  changed = true;
  if (busy) return;
  busy = true;
  while (changed) {
    changed = false;
    const body = typed();
    const headers = { "Content-Type": "application/x-www-form-urlencoded" };
    const answer = await fetch("/", { method: "POST", body, headers }).catch(() => null);
    if (!answer?.ok) break;
    const text = await answer.text();
    // What was typed meanwhile is sent first, so that no answer is lost.
    if (typed() === body) show(text);
    else changed = true;
  }
  busy = false;
});

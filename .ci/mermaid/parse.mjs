// Reads each .mmd file with the real Mermaid, as a viewer does, and exits 1 naming each that is no diagram to it.
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");
mermaid.initialize({ startOnLoad: false, securityLevel: "strict" });

const paths = process.argv.slice(2);
if (paths.length === 0) {
  console.error("usage: node parse.mjs FILE.mmd...");
  process.exit(2);
}
let failures = 0;
for (const path of paths) {
  try {
    const { diagramType } = await mermaid.parse(readFileSync(path, "utf8"));
    if (diagramType !== "stateDiagram") throw new Error(`Mermaid takes it for a ${diagramType}`);
  } catch (error) {
    failures += 1;
    console.error(`${path}: ${String(error?.message ?? error).split("\n").slice(0, 4).join(" | ")}`);
  }
}
console.log(`${paths.length - failures} of ${paths.length} Mermaid texts are diagrams`);
process.exit(failures === 0 ? 0 : 1);

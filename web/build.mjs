// Builds the page: worker, script, style and template become one HTML file without any reference to another.
// Usage: node build.mjs OUT.html
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

async function bundle(entry, define = {}) {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [join("src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2022",
    charset: "ascii",
    legalComments: "inline",
    define,
  });
  return result.outputFiles[0].text.trim().replaceAll("</script", "<\\/script");
}

const worker = await bundle("worker.ts");
const script = await bundle("main.ts", { WORKER_SOURCE: JSON.stringify(worker) });
const style = readFileSync(join(here, "src", "style.css"), "utf8").trim();
const template = readFileSync(join(here, "src", "page.html"), "utf8");
const page = template.replace("/*STYLE*/", () => style).replace("/*SCRIPT*/", () => script);
writeFileSync(process.argv[2], page);

import { createHash } from 'node:crypto'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { categoryOf } from '#shared/catalog/categories.ts'
import { operations } from '#shared/operations/registry.ts'
import { LINKS, priceOfCall, tryCommands } from './guidance.ts'

/** No color is set except by the two schemes of the browser, and nothing is wider than the window. */
const STYLE = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:0 auto;padding:1.5rem 1rem}
h1{line-height:1.2}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4rem .8rem .4rem 0;border-bottom:1px solid #8886}
code{font-size:.9em;overflow-wrap:anywhere}
pre{overflow-x:auto;padding:.8rem;border:1px solid #8886;border-radius:.4rem}
pre code{overflow-wrap:normal}`

/** Allows this page's own style and icon, and nothing else: no script, form, frame or other host. */
export const HOME_PAGE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Returns the page at `/` for people: what this is, prices, requests to try, and links. */
export function homePage(catalog: Catalog, publicBaseUrl: string): string {
  const { host } = new URL(publicBaseUrl)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>farebox at ${escapeHtml(host)}: AI models, paid per call</title>
<meta name="description" content="Text, image, speech and transcription models, each call paid in USDC through x402. No account, no API key.">
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="alternate" href="/llms.txt" type="text/plain" title="For agents">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>farebox</h1>
<p>AI models at ${escapeHtml(host)}, paid per call. No account and no API key: send a request, get its maximum price (402), sign it with a wallet that holds USDC on Base, and send it again. You are charged for what was measured and get a receipt that you can verify. The protocol is <a href="https://x402.org">x402</a> version 2, scheme <code>upto</code>.</p>
<h2 id="prices">Prices of a call</h2>
<table aria-labelledby="prices">
<thead><tr><th scope="col">Endpoint</th><th scope="col">Price</th></tr></thead>
<tbody>
${operations.map((operation) => priceRow(operation, catalog)).join('')}</tbody>
</table>
<h2>Try it</h2>
${tryCommands(catalog, publicBaseUrl).map(commandBlock).join('\n')}
<p>Next: <a href="/docs/">the reference</a> begins with a program that makes a paid call.</p>
<h2>Agents</h2>
<p>An MCP client calls the same models as tools: add <code>${escapeHtml(new URL('/mcp', publicBaseUrl).href)}</code> (streamable HTTP). Each call is paid by the wallet of its caller, with x402 in <code>_meta</code>; <a href="/llms.txt">the guidance for agents</a> says how.</p>
<h2>Links</h2>
<ul>
${LINKS.map(([title, path]) => `<li><a href="${path}">${escapeHtml(title)}</a></li>`).join('\n')}
<li><a href="/llms.txt">For agents: how to call, pay and retry</a></li>
</ul>
</main>
</body>
</html>
`
}

function priceRow({ path, category }: (typeof operations)[number], catalog: Catalog): string {
  const price = priceOfCall(catalog, category)
  if (price === null) return ''
  return `<tr><td><code>POST ${path}</code><br>${escapeHtml(categoryOf(category).label)}</td><td>${price}</td></tr>\n`
}

/** Focusable, so that a command that is wider than the window can be scrolled with the keyboard. */
function commandBlock({ does, command }: { does: string; command: string }): string {
  const label = escapeHtml(does)
  return `<p>${label}:</p>\n<pre tabindex="0" role="region" aria-label="${label}"><code>${escapeHtml(command)}</code></pre>`
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => ENTITIES[character] ?? character)
}

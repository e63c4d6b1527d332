import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Eta } from 'eta'

/** Templates are named by their path in this folder. */
export const TEMPLATES = fileURLToPath(new URL('..', import.meta.url))
const PARTIALS = fileURLToPath(new URL('views', import.meta.url))

/** The only output that is not escaped: another template, and the page inside the layout. */
const TRUSTED_OUTPUT = /^(include\('@[a-z-]+'(,[^]*)?\)|it\.body)$/
/** Names of Eta's compiled code by which a statement could write unescaped output. */
const UNESCAPED_WRITES = /\b(output|capture|captureAsync|block|blockAsync)\s*\(|__eta/

/**
 * Creates the template engine. Everything is escaped: a template with other raw output does not compile, and a value
 * that is missing is an error instead of the text "undefined". Each file in `views` is a partial, `include('@name')`.
 */
export function createTemplates(): Eta {
  const eta = new Eta({
    views: TEMPLATES,
    cache: true,
    escapeFunction: escapeHtml,
    plugins: [{ processAST: refuseRawOutput }],
  })
  for (const file of readdirSync(PARTIALS))
    eta.loadTemplate(`@${basename(file, '.eta')}`, readFileSync(join(PARTIALS, file), 'utf8'))
  return eta
}

type Parts = Parameters<NonNullable<Eta['config']['plugins'][number]['processAST']>>[0]

function refuseRawOutput(parts: Parts): Parts {
  for (const part of parts) {
    if (typeof part === 'string') continue
    const code = part.val.trim()
    if (part.t === 'r' && !TRUSTED_OUTPUT.test(code)) throw new TypeError(`a template writes unescaped output: ${code}`)
    if (part.t !== 'r' && UNESCAPED_WRITES.test(code)) throw new TypeError(`a template writes by itself: ${code}`)
  }
  return parts
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
}

function escapeHtml(value: unknown): string {
  return textOf(value).replace(/[&<>"'`]/g, (character) => ENTITIES[character] ?? '')
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value)
  if (value === null) return ''
  throw new TypeError(`a template prints a value of the type ${typeof value}`)
}

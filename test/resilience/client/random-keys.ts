import { registerHooks } from 'node:module'

/**
 * Loaded before the command: replaces the derived idempotency keys by random ones, as a client without this safeguard has.
 * The checker of the campaign must notice.
 */
const MODULE = /\/client\/payment\/call-key\.ts$/
const DECLARATION = 'export function deriveCallKey('

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    if (!MODULE.test(url)) return loaded
    const { source: bytes } = loaded
    const source = typeof bytes === 'string' ? bytes : new TextDecoder().decode(bytes ?? new Uint8Array())
    if (!source.includes(DECLARATION)) throw new Error(`there is no ${DECLARATION} in ${url}`)
    return {
      ...loaded,
      source: `${source.replace(DECLARATION, 'export function derivedCallKey(')}
export function deriveCallKey() { return globalThis.crypto.randomUUID() }
`,
    }
  },
})

import { createHmac, timingSafeEqual } from 'node:crypto'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'

/** The console's cookies: their names and attributes, and texts that only the console can have written. */
export type ConsoleCookies = ReturnType<typeof createCookies>

/**
 * Over TLS the names begin with `__Host-`, so no other host can set them. Browsers take that prefix only with `Secure`,
 * which Safari refuses over http also on loopback, where the names stay plain.
 */
export function createCookies(isSecure: boolean, { readCookieSecret }: Pick<OperatorStore, 'readCookieSecret'>) {
  const prefix = isSecure ? '__Host-' : ''
  let secret: Promise<Buffer> | undefined
  const macOf = async (purpose: string, text: string) => {
    secret ??= readCookieSecret().catch((error: unknown) => {
      // The next request asks the database again.
      secret = undefined
      throw error
    })
    return createHmac('sha256', await secret)
      .update(JSON.stringify([purpose, text]))
      .digest()
  }
  return {
    // `__Host-` demands the path `/`.
    options: { path: isSecure ? '/' : '/operator', httpOnly: true, sameSite: 'strict', secure: isSecure } as const,
    session: `${prefix}operator_session`,
    notice: `${prefix}operator_notice`,
    /** The name of the cookie by which a browser is known to an account. */
    deviceOf: (operator: string) => `${prefix}operator_device_${sha256Hex(operator).slice(0, 16)}`,
    /** Signs a text for one purpose: the value of a cookie. */
    sign: async (purpose: string, text: string) =>
      `${Buffer.from(text).toString('base64url')}.${(await macOf(purpose, text)).toString('base64url')}`,
    /** Returns the text that was signed for this purpose; `null` for any other value. */
    verify: async (purpose: string, value: string | undefined) => {
      const [encoded = '', mac] = value?.split('.') ?? []
      if (mac === undefined) return null
      const text = Buffer.from(encoded, 'base64url').toString('utf8')
      const [given, expected] = [Buffer.from(mac, 'base64url'), await macOf(purpose, text)]
      return given.length === expected.length && timingSafeEqual(given, expected) ? text : null
    },
  }
}

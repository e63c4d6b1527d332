import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { type Hex, hexToBytes, toHex } from 'viem'

/** Whose passkey it is. */
export const SITE = 'wallet.example'
/** User present and user verified. */
const FLAGS = 0x05

/** What an authenticator answers to a challenge (WebAuthn, "navigator.credentials.get"). */
export interface Assertion {
  readonly authenticatorData: Buffer
  readonly clientDataJson: string
  /** Of P-256: in DER, as WebAuthn has it, or the two integers of 32 bytes. */
  readonly signature: Buffer
}

/** A passkey in the memory of the test. */
export interface Authenticator {
  readonly publicKey: { readonly x: bigint; readonly y: bigint }
  assert(challenge: Hex, encoding?: 'der' | 'ieee-p1363'): Assertion
}

export function createAuthenticator(): Authenticator {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  return {
    publicKey: { x: toInteger(x), y: toInteger(y) },
    assert: (challenge, dsaEncoding = 'der') => {
      const site = createHash('sha256').update(SITE).digest()
      const authenticatorData = Buffer.concat([site, Buffer.from([FLAGS, 0, 0, 0, 0])])
      const encoded = Buffer.from(hexToBytes(challenge)).toString('base64url')
      const clientDataJson = `{"type":"webauthn.get","challenge":"${encoded}","origin":"https://${SITE}","crossOrigin":false}`
      const signed = Buffer.concat([authenticatorData, createHash('sha256').update(clientDataJson).digest()])
      return { authenticatorData, clientDataJson, signature: sign('sha256', signed, { key: privateKey, dsaEncoding }) }
    },
  }
}

function toInteger(base64url: string): bigint {
  return BigInt(toHex(Buffer.from(base64url, 'base64url')))
}

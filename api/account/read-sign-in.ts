import { createSIWxMessage } from '@x402/extensions/sign-in-with-x'
import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { parseBase64Json } from '#shared/payment/x402-wire.ts'
import { openSignInChallenge, type SignInMessage, type SignInSettings } from './sign-in-challenge.ts'

/** Three times as long as a wallet's answer to one of our challenges. */
const MAXIMUM_HEADER_LENGTH = 4096
const MAXIMUM_FIELD_LENGTH = 1024

/** A 401 names a scheme that would be accepted (RFC 9110, section 11.6.1). */
export const UNAUTHENTICATED = { 'www-authenticate': 'Bearer' } as const

const field = z.string().max(MAXIMUM_FIELD_LENGTH)

/** The content of `SIGN-IN-WITH-X`: the challenge's message with address and signature. */
const signInSchema = z.object({
  address: z.string().regex(/^0x[0-9a-fA-F]{40}$/, { error: 'must be 0x and 40 hexadecimal digits' }),
  domain: field,
  uri: field,
  statement: field.optional(),
  version: field,
  chainId: field,
  type: field,
  nonce: field,
  issuedAt: field,
  expirationTime: field.optional(),
  notBefore: field.optional(),
  requestId: field.optional(),
  resources: z.array(field).optional(),
  signature: z.string().regex(/^0x([0-9a-fA-F]{2})+$/, { error: 'must be 0x and whole hexadecimal bytes' }),
})

type SignIn = z.infer<typeof signInSchema>

/** Returns the lower-case address whose key signed an EIP-191 message, or `null`. Computed locally. */
export type RecoverMessageSigner = (message: string, signature: `0x${string}`) => `0x${string}` | null

export interface SignInReader extends SignInSettings {
  readonly recoverMessageSigner: RecoverMessageSigner
}

/** A wallet that answered a challenge. The caller records the nonce, which proves the wallet only once. */
export interface ProvenWallet {
  /** In lower case. */
  readonly address: `0x${string}`
  readonly nonce: string
  readonly expiresAt: Date
}

/**
 * Reads a `SIGN-IN-WITH-X` header for a route: its shape, its challenge, then its signature, without network calls.
 * Throws `invalid_sign_in_header`, `sign_in_refused` and `sign_in_expired`.
 */
export function readSignIn(reader: SignInReader, path: string, header: string): ProvenWallet {
  const signIn = parseHeader(header)
  const opened = openSignInChallenge(reader, path, signIn)
  if (opened.outcome === 'expired') throw new AppError('sign_in_expired', { headers: UNAUTHENTICATED })
  if (opened.outcome === 'not_yet_valid')
    throw refused(
      'issuedAt',
      'issuedAt is in the future. Ask for a new challenge: the clock of the service has changed.',
    )
  if (opened.outcome === 'foreign') throw refused('nonce', foreignReason(signIn, reader, path))
  requireSameMessage(signIn, opened.message)
  requireSigner(reader, signIn, opened.message)
  const address = signIn.address.toLowerCase() as `0x${string}`
  return { address, nonce: signIn.nonce, expiresAt: opened.expiresAt }
}

function parseHeader(header: string): SignIn {
  if (header.length > MAXIMUM_HEADER_LENGTH)
    throw malformed(`it has ${header.length} characters; at most ${MAXIMUM_HEADER_LENGTH} are allowed`)
  const json = parseBase64Json(header)
  if (json === null) throw malformed('it is not one JSON object in standard Base64')
  const parsed = signInSchema.safeParse(json.value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw malformed(`${issue?.path.join('.') || 'the object'}: ${issue?.message ?? 'invalid'}`)
}

/** Returns why a nonce is not one of this route: the most common mistake is a challenge of somewhere else. */
function foreignReason({ uri, domain }: SignIn, { publicBaseUrl }: SignInReader, path: string): string {
  const expected = new URL(path, publicBaseUrl)
  if (domain !== expected.host) return `domain must be ${expected.host}: this message was made for another service.`
  if (uri !== expected.href) return `uri must be ${expected.href}: each route has its own challenge.`
  return 'nonce and issuedAt are not those of a challenge of this route. Sign the challenge as it was sent.'
}

/** Refuses a message that differs from the challenge, with the field's name: its signature could not match. */
function requireSameMessage(signIn: SignIn, message: SignInMessage): void {
  const added = (['notBefore', 'requestId'] as const).find((name) => signIn[name] !== undefined)
  if (added !== undefined) throw refused(added, `${added} is not part of the challenge.`)
  const fields = ['domain', 'uri', 'chainId', 'type', 'version', 'statement', 'expirationTime', 'resources'] as const
  for (const name of fields)
    if (JSON.stringify(signIn[name]) !== JSON.stringify(message[name]))
      throw refused(name, `${name} must be ${String(message[name])}, as in the challenge.`)
}

function requireSigner({ recoverMessageSigner }: SignInReader, { address, signature }: SignIn, message: SignInMessage) {
  if (!/^0x[0-9a-fA-F]{130}$/.test(signature))
    throw refused(
      'signature',
      'signature must be an ECDSA signature of 65 bytes. Contract wallets (EIP-1271, EIP-6492) cannot sign in, as they cannot pay.',
    )
  if (recoverMessageSigner(messageText(message, address), signature as `0x${string}`) !== address.toLowerCase())
    throw refused('signature', 'signature does not match the message and its address.')
}

/** Returns the EIP-4361 text. Throws for an address whose mixed case is not its EIP-55 checksum. */
function messageText(message: SignInMessage, address: string): string {
  try {
    return createSIWxMessage(message, address)
  } catch (cause) {
    throw refused('address', 'address has mixed case that is not its EIP-55 checksum.', cause)
  }
}

function refused(param: string, reason: string, cause?: unknown): AppError {
  const message = `The sign-in was refused: ${reason} Send the request without SIGN-IN-WITH-X to get a new challenge.`
  return new AppError('sign_in_refused', { param, message, headers: UNAUTHENTICATED, cause })
}

function malformed(reason: string): AppError {
  const message = `SIGN-IN-WITH-X is not a valid answer to a sign-in challenge: ${reason}.`
  return new AppError('invalid_sign_in_header', { param: 'sign-in-with-x', message })
}

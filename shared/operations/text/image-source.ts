import { z } from 'zod'
import { decodeCanonicalBase64 } from '../canonical-base64.ts'
import { imageMediaType } from './image-bytes.ts'
import type { TextPart } from './text-request.ts'

export type ImagePart = Extract<TextPart, { type: 'image' }>

type ImageReading =
  | { readonly image: ImagePart; readonly fault: null }
  | { readonly image: null; readonly fault: string }

const MEDIA_TYPES = ['image/png', 'image/jpeg', 'image/jpg', 'image/webp', 'image/gif'] as const

/**
 * The head of a Base64 data URL, with the parameters that its media type may have (RFC 2397, section 3; RFC 2045,
 * section 5.1, for quoted values). Spaces around the parts are tolerated as by the Fetch standard, "data: URL processor".
 */
const DATA_URI_HEAD =
  /^data: {0,4}([^,;\s]{1,64})(?: {0,4}; {0,4}[^,;="\s]{1,64}=(?:"[^"]{0,256}"|[^,;"]{0,256})){0,8} {0,4}; {0,4}base64 {0,4},/i

const HTTPS_ONLY =
  'An https URL without user name and password, fetched once after the payment; http is refused. PNG, JPEG, WebP or GIF.'

/** The `url` of a chat image part: a Base64 data URI or an https URL. */
export const imageUrlSchema = z
  .string()
  .check(({ value, issues }) => {
    const { fault } = readImageUrl(value)
    if (fault !== null) issues.push({ code: 'custom', message: fault, input: value })
  })
  .meta({ description: `A Base64 data URI, or: ${HTTPS_ONLY}` })

/** The `source` of a message image block. */
export const imageBlockSourceSchema = z.discriminatedUnion(
  'type',
  [
    z.looseObject({
      type: z.literal('base64'),
      media_type: z.enum(MEDIA_TYPES),
      data: z.string().check(({ value, issues }) => {
        const { fault } = readBase64(value)
        if (fault !== null) issues.push({ code: 'custom', message: fault, input: value })
      }),
    }),
    z.looseObject({
      type: z.literal('url'),
      url: z
        .string()
        .check(({ value, issues }) => {
          const { fault } = readHttpsUrl(value)
          if (fault !== null) issues.push({ code: 'custom', message: fault, input: value })
        })
        .meta({ description: HTTPS_ONLY }),
    }),
  ],
  { error: ({ code }) => (code === 'invalid_union' ? 'must be "base64" or "url"' : undefined) },
)

/** Translates a URL that `imageUrlSchema` accepts. Throws `TypeError` on anything else. */
export function imageFromUrl(url: string): ImagePart {
  return imageOf(readImageUrl(url))
}

/** Translates a source that `imageBlockSourceSchema` accepts. Throws `TypeError` on anything else. */
export function imageFromBlock(source: z.infer<typeof imageBlockSourceSchema>): ImagePart {
  return imageOf(source.type === 'base64' ? readBase64(source.data) : readHttpsUrl(source.url))
}

function imageOf({ image, fault }: ImageReading): ImagePart {
  if (!image) throw new TypeError(`an image that passed validation ${fault}`)
  return image
}

function readImageUrl(url: string): ImageReading {
  if (!/^data:/i.test(url)) return readHttpsUrl(url, 'an https URL or a Base64 data URI of an image')
  const [head, mediaType] = DATA_URI_HEAD.exec(url) ?? []
  if (head === undefined || !MEDIA_TYPES.some((known) => known === mediaType?.toLowerCase()))
    return rejected('must be a Base64 data URI of type image/png, image/jpeg, image/webp or image/gif')
  const data = url.slice(head.length)
  return readBase64(data.includes('%') ? withoutPercentEncoding(data) : data)
}

/** Returns the data of a URL whose `+`, `/` and `=` are percent-encoded, as they may be in any URL. */
function withoutPercentEncoding(data: string): string {
  return data.replaceAll(/%(2b|2f|3d)/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

/** Reads inline Base64. The effective request carries the type of the bytes; the caller's declared type is ignored. */
function readBase64(base64: string): ImageReading {
  const bytes = decodeCanonicalBase64(base64)
  if (!bytes) return rejected('must be canonical RFC 4648 Base64 without whitespace and with padding')
  const mediaType = imageMediaType(bytes)
  if (!mediaType) return rejected('must contain the bytes of a PNG, JPEG, WebP or GIF image')
  return accepted({ kind: 'inline', media_type: mediaType, base64 })
}

/** Reads an https URL. Only its form is checked; the worker checks the address when it connects. */
function readHttpsUrl(text: string, expected = 'an https URL'): ImageReading {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url?.protocol !== 'https:') return rejected(`must be ${expected}`)
  if (url.username !== '' || url.password !== '') return rejected('must not contain a user name or password')
  return accepted({ kind: 'url', url: url.href })
}

function accepted(source: ImagePart['source']): ImageReading {
  return { image: { type: 'image', source }, fault: null }
}

function rejected(fault: string): ImageReading {
  return { image: null, fault }
}

import { type ImageMediaType, imageMediaType, imageSize } from '#shared/operations/text/image-bytes.ts'
import { emptyOutput } from './failures.ts'
import type { ProviderFailure } from './provider.ts'

/** The side of the only size that is sold, in pixels (`1K`, `1:1`). */
const SIDE = 1024

type GeneratedImage =
  | { readonly outcome: 'image'; readonly contentType: Exclude<ImageMediaType, 'image/gif'> }
  | ProviderFailure

/**
 * Reads type and size of a generated image from its bytes. Anything but a PNG, JPEG or WebP of 1024 × 1024 pixels is
 * not what the caller pays for, although the vendor worked for it.
 */
function readGeneratedImage(bytes: Uint8Array): GeneratedImage {
  const contentType = imageMediaType(bytes)
  if (contentType === null || contentType === 'image/gif')
    return emptyOutput('HTTP 200 with an image that is neither PNG, JPEG nor WebP')
  const size = imageSize(bytes)
  if (size === null) return emptyOutput('HTTP 200 with an image whose header is unreadable')
  if (size.width !== SIDE || size.height !== SIDE)
    return emptyOutput(`HTTP 200 with an image of ${size.width} × ${size.height} pixels`)
  return { outcome: 'image', contentType }
}

/** What stands before the Base64 of a URL that is the image itself. */
const DATA_URL = /^data:[^,]{0,100};base64,/i

export function isDataUrl(url: string): boolean {
  return DATA_URL.test(url)
}

/**
 * Returns the first of several images, in Base64 or as data URLs, that is what the caller pays for; otherwise what is wrong with
 * the first.
 */
export function firstGeneratedImage(
  candidates: readonly string[],
):
  | { readonly outcome: 'image'; readonly bytes: Buffer; readonly contentType: Exclude<ImageMediaType, 'image/gif'> }
  | ProviderFailure {
  const read = candidates.map((base64) => {
    const bytes = Buffer.from(base64.replace(DATA_URL, ''), 'base64')
    return { bytes, image: readGeneratedImage(bytes) }
  })
  for (const { bytes, image } of read) if (image.outcome === 'image') return { ...image, bytes }
  const [first] = read
  return first?.image.outcome === 'failed' ? first.image : emptyOutput('HTTP 200 without an image')
}

import { FREE_FORMAT, frameLengthAt, layerAt, paddingAt, sideInformationBytesAt, streamKeyAt } from './mpeg-header.ts'

// LAME encodes up to 640 kbit/s, 2,880 bytes at 32 kHz. Decoders accept a little more.
const MAXIMUM_FREE_FORMAT_BYTES = 4_096

// A search reads up to 4 KiB, so a hostile file gets only a few failed ones. An ordinary file causes none.
const MAXIMUM_FAILED_SEARCHES = 64

/** How many searches for free format may still fail in a file. */
export interface SearchBudget {
  failuresLeft: number
}

/** Creates the budget of a new walk. */
export function newSearchBudget(): SearchBudget {
  return { failuresLeft: MAXIMUM_FAILED_SEARCHES }
}

function isFreeFormatOf(bytes: Uint8Array, offset: number, end: number, key: number): boolean {
  return frameLengthAt(bytes, offset, end) === FREE_FORMAT && streamKeyAt(bytes, offset) === key
}

/**
 * Returns whether layer III in free format begins at `offset`, whose headers do not state the length of a frame: another
 * header of the stream follows, and after the same distance a third one or the end.
 */
export function isFreeFormatAt(bytes: Uint8Array, offset: number, end: number, budget: SearchBudget): boolean {
  if (frameLengthAt(bytes, offset, end) !== FREE_FORMAT || budget.failuresLeft === 0) return false
  const key = streamKeyAt(bytes, offset)
  const smallest = 4 + sideInformationBytesAt(bytes, offset)
  const padding = paddingAt(bytes, offset)
  const last = Math.min(end - 4, offset + MAXIMUM_FREE_FORMAT_BYTES)
  let next = bytes.indexOf(0xff, offset + smallest)
  for (; next >= 0 && next <= last; next = bytes.indexOf(0xff, next + 1)) {
    if (!isFreeFormatOf(bytes, next, end, key)) continue
    const third = next + (next - offset) - padding + paddingAt(bytes, next)
    if (third === end || isFreeFormatOf(bytes, third, end, key)) return true
  }
  budget.failuresLeft--
  return false
}

/**
 * Returns the length of the layer III frame with its header at `offset` (it may exceed `end`), or zero when there is
 * none whose header states it.
 */
export function layer3BytesAt(bytes: Uint8Array, offset: number, end: number): number {
  const length = frameLengthAt(bytes, offset, end)
  return length > 0 && layerAt(bytes, offset) === 3 ? length : 0
}

/** Returns whether three complete consecutive frames of one stream, of any layer, start at `offset`. */
export function threeFramesAt(bytes: Uint8Array, offset: number, end: number): boolean {
  let position = offset
  let key = -1
  for (let count = 0; count < 3; count++) {
    const length = frameLengthAt(bytes, position, end)
    if (length <= 0) return false
    if (count > 0 && streamKeyAt(bytes, position) !== key) return false
    key = streamKeyAt(bytes, position)
    position += length
  }
  return position <= end
}

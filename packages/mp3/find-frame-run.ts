import { FREE_FORMAT, frameLengthAt, layerAt, paddingAt, sideInformationBytesAt, streamKeyAt } from './mpeg-header.ts'

/** The walk's knowledge about free format: the length found last and the remaining budget of failed searches. */
export interface FreeFormatState {
  /** Stream key that `baseBytes` belongs to, or -1. */
  key: number
  /** Frame bytes without padding. */
  baseBytes: number
  failuresLeft: number
}

// LAME encodes up to 640 kbit/s, 2,880 bytes at 32 kHz. Decoders accept a little more.
const MAXIMUM_FREE_FORMAT_BYTES = 4_096

// A search reads up to 4 KiB, so a hostile file gets only a few failed ones. An ordinary file causes none.
const MAXIMUM_FAILED_SEARCHES = 64

/** Creates the state of a new walk. */
export function newFreeFormatState(): FreeFormatState {
  return { key: -1, baseBytes: 0, failuresLeft: MAXIMUM_FAILED_SEARCHES }
}

function isFreeFormatOf(bytes: Uint8Array, offset: number, end: number, key: number): boolean {
  return frameLengthAt(bytes, offset, end) === FREE_FORMAT && streamKeyAt(bytes, offset) === key
}

/**
 * Returns the distance to the next free-format header of the same stream, confirmed by a third one or by the end, or
 * zero.
 */
function searchFreeFormatBytes(bytes: Uint8Array, offset: number, end: number, key: number): number {
  const smallest = 4 + sideInformationBytesAt(bytes, offset)
  const padding = paddingAt(bytes, offset)
  const last = Math.min(end - 4, offset + MAXIMUM_FREE_FORMAT_BYTES)
  let next = bytes.indexOf(0xff, offset + smallest)
  for (; next >= 0 && next <= last; next = bytes.indexOf(0xff, next + 1)) {
    if (!isFreeFormatOf(bytes, next, end, key)) continue
    const third = next + (next - offset) - padding + paddingAt(bytes, next)
    if (third === end || isFreeFormatOf(bytes, third, end, key)) return next - offset - padding
  }
  return 0
}

/**
 * Returns the length of the free-format frame at `offset`, whose header does not state it, or zero when neither the
 * length found last nor a search determines it.
 */
function freeFormatBytesAt(bytes: Uint8Array, offset: number, end: number, state: FreeFormatState): number {
  const key = streamKeyAt(bytes, offset)
  const known = state.key === key ? state.baseBytes + paddingAt(bytes, offset) : 0
  if (known > 0 && (offset + known >= end || isFreeFormatOf(bytes, offset + known, end, key))) return known
  if (state.failuresLeft === 0) return known
  const base = searchFreeFormatBytes(bytes, offset, end, key)
  if (base === 0) {
    state.failuresLeft--
    return known
  }
  state.key = key
  state.baseBytes = base
  return base + paddingAt(bytes, offset)
}

/**
 * Returns the length of the layer III frame with its header at `offset` (it may exceed `end`), or zero when there is
 * none.
 */
export function layer3BytesAt(bytes: Uint8Array, offset: number, end: number, state: FreeFormatState): number {
  const length = frameLengthAt(bytes, offset, end)
  if (length === 0 || layerAt(bytes, offset) !== 3) return 0
  return length === FREE_FORMAT ? freeFormatBytesAt(bytes, offset, end, state) : length
}

/** Returns whether three complete consecutive frames of one stream, of any layer, start at `offset`. */
export function threeFramesAt(bytes: Uint8Array, offset: number, end: number, state: FreeFormatState): boolean {
  let position = offset
  let key = -1
  for (let count = 0; count < 3; count++) {
    let length = frameLengthAt(bytes, position, end)
    if (length === 0) return false
    if (count > 0 && streamKeyAt(bytes, position) !== key) return false
    key = streamKeyAt(bytes, position)
    if (length === FREE_FORMAT) length = freeFormatBytesAt(bytes, position, end, state)
    if (length === 0) return false
    position += length
  }
  return position <= end
}

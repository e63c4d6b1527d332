import { FREE_FORMAT_FOUND, LONE_HEADER_FOUND, TAG_PAST_END_FOUND } from '#mp3/walk-frames.ts'

/*
 * The commands that error messages name: each makes parts or a file that the service accepts. `-vn` leaves out cover
 * art and video. At 48 kbit/s an hour has 21.6 MB, below the limit of an upload. `farebox transcribe` is the command of
 * this repository's client, which prepares recordings itself.
 */

/** Makes an MP3 of any recording that ffmpeg reads. */
const CONVERT = 'ffmpeg -i input -vn -ac 1 -b:a 48k output.mp3'

/** Makes an MP3 that ffmpeg reads of one in free format. Otherwise mpg123 takes joined rates and channels for those of the first. */
const DECODE_AND_CONVERT = `mpg123 -q --mono -r 44100 -w - input | ${CONVERT.replace('input', '-')}`

const KILOBITS_PER_SECOND = 48
/** Leaves room for headers, and for segments that end a little after their time. */
const SHARE_OF_LIMIT = 5 / 6

/** What the published model accepts. */
export interface AudioLimits {
  readonly maximumBytes: number
  readonly minimumDurationMs: number
  readonly maximumDurationMs: number
}

/** What a walk can find that no conversion turns into a recording. */
const NO_RECORDINGS: ReadonlySet<string> = new Set([
  'an empty file',
  'a MIDI file',
  'a PDF document',
  'a ZIP archive',
  'a PNG image',
  TAG_PAST_END_FOUND,
  LONE_HEADER_FOUND,
])
/** The beginning of what a walk reports that recognized nothing: it may be text, or a rare format. */
const UNRECOGNIZED = 'no MPEG audio frames'

const BY_CLIENT = 'The client command "farebox transcribe" does it by itself; otherwise run:'

/** For MP3s that a decoder does not take. */
export const ENCODE_AGAIN = `Encode the recording again with: ${CONVERT}`

/** Returns the sentence that says how to make an MP3 of an upload that was found to be something else. */
export function conversionAdvice(found: string): string {
  if (found === FREE_FORMAT_FOUND)
    return `ffmpeg decodes none of it; mpg123 and "lame --decode" do. Encode the recording again with: ${DECODE_AND_CONVERT}`
  if (NO_RECORDINGS.has(found)) return 'Send the bytes of an MP3 recording.'
  return found.startsWith(UNRECOGNIZED)
    ? `If it is a recording, convert it to MP3. ${BY_CLIENT} ${CONVERT}`
    : `Convert the recording to MP3. ${BY_CLIENT} ${CONVERT}`
}

/** Returns the sentence that says how to split an MP3 of valid size without another encoding. */
export function splitAdvice({ maximumDurationMs }: Pick<AudioLimits, 'maximumDurationMs'>): string {
  const seconds = Math.floor((maximumDurationMs / 1000) * SHARE_OF_LIMIT)
  return `Split it, and send each part as a request. ${BY_CLIENT} ffmpeg -i input.mp3 -vn -c copy -f segment -segment_time ${seconds} part%03d.mp3`
}

/** Returns the sentence that says how to make a recording smaller, in several parts if it is also long. */
export function shrinkAdvice({ maximumBytes, maximumDurationMs }: Omit<AudioLimits, 'minimumDurationMs'>): string {
  const secondsOfBytes = (maximumBytes * 8) / (KILOBITS_PER_SECOND * 1000)
  const seconds = Math.floor(Math.min(maximumDurationMs / 1000, secondsOfBytes) * SHARE_OF_LIMIT)
  return `Make it smaller, in parts if it is long. ${BY_CLIENT} ffmpeg -i input -vn -ac 1 -b:a 48k -f segment -segment_time ${seconds} part%03d.mp3`
}

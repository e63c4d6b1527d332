import { execa } from 'execa'
import { AudioError, PROTECTED_ENTRIES, protectedAudio } from './audio-error.ts'
import type { Silence } from './parts/plan-parts.ts'
import { createPrepared } from './write-prepared.ts'

/** What a file claims about its sound. */
interface AudioDescription {
  /** Undefined when the file does not state it, although ffprobe may have an idea of it. */
  readonly durationMs: number | undefined
  /** How much later the sound begins than the recording, of which it may be only one track. */
  readonly startMs: number
}

interface ProbedStream {
  readonly codec_type?: string
  readonly codec_name?: string
  readonly codec_tag_string?: string
  readonly duration?: string
  readonly start_time?: string
}

interface Conversion {
  readonly path: string
  /** Of an MP3 of several sample rates, the one in Hz that it is decoded to. */
  readonly decodedRate?: number | undefined
  /** The MP3 to write. */
  readonly output: string
  /** Kilobit/s. */
  readonly bitRate: number
  readonly signal?: AbortSignal
}

interface ProbedFormat {
  /** All names of the container, such as `mov,mp4,m4a,3gp,3g2,mj2`. */
  readonly format_name?: string
  readonly duration?: string
  readonly start_time?: string
}

/** How libavformat warns that it divided the size by the bit rate of the first seconds: 391 s for 33 s of bare AAC. */
const GUESSED = 'Estimating duration from bitrate'
/** Containers of which ffprobe subtracts two timestamps. Where joined or live ones jump, an hour of it may be missing. */
const TIMESTAMPED = /^(mpeg|mpegts|flv|live_flv|nut)\b/
/** Containers that state when the sound ends, on the clock of its beginning. */
const STATE_ENDS = /^(matroska|asf)\b/

/** Samples by which LAME and a decoder delay the sound when no header frame tells players to skip them. */
const DELAY_SAMPLES = 1105

/** How much of ffmpeg's report an error keeps: of a damaged recording it has thousands of lines. */
const LONGEST_REPORT = 2000

/** Below this level nobody speaks; the noise of a quiet room is about 15 dB lower. */
const NOISE = '-35dB'
const SHORTEST_SECONDS = 0.25
const RATE = 8000
const MP3_INPUT = ['-f', 'mp3', '-i', 'pipe:0']

interface Mp3Source extends Pick<RunOptions, 'signal'> {
  /** Names the recording in errors. */
  readonly path: string
  readonly ffmpeg: Ffmpeg
}

export interface ProgramResult {
  readonly succeeded: boolean
  readonly stdout: Uint8Array
  readonly stderr: string
}

export interface RunOptions {
  /** Bytes for the standard input, which is empty otherwise. */
  readonly input?: Uint8Array
  /** Arguments of another run of the program, whose standard output becomes the standard input. */
  readonly from?: readonly string[]
  readonly signal?: AbortSignal
}

/** The installed programs; each call runs one of them to its end. */
export interface Ffmpeg {
  readonly ffmpeg: (args: readonly string[], options?: RunOptions) => Promise<ProgramResult>
  readonly ffprobe: (args: readonly string[], options?: RunOptions) => Promise<ProgramResult>
}

/** An hour of decoded speech at 8 kHz has 58 MB; the longest window that is decoded is a fifth of one. */
const MAXIMUM_OUTPUT_BYTES = 100_000_000

/** Returns ffmpeg if it and ffprobe can be run, otherwise undefined. */
export async function findFfmpeg(ffmpegPath = 'ffmpeg'): Promise<Ffmpeg | undefined> {
  const programs = { ffmpeg: programAt(ffmpegPath), ffprobe: programAt('ffprobe') }
  const versions = await Promise.all([programs.ffmpeg(['-version']), programs.ffprobe(['-version'])])
  return versions.every(({ succeeded }) => succeeded) ? programs : undefined
}

/**
 * The formats that are read. Playlists and scripts (hls, concat, dash, imf, avisynth) are none of them: in the place of a
 * recording they would have ffmpeg read other files of this machine.
 */
const FORMATS = [
  'mp3 wav w64 flac ape wv tta tak aac aax aa loas mov ogg matroska asf asf_o aiff caf au snd amr amrnb amrwb gsm voc',
  'ac3 eac3 dts dtshd truehd mlp mpc mpc8 rm avi mpeg mpegts m4v flv live_flv mxf iff dsf ircam nistsphere oma aea qcp',
  'sox rso nut wtv wve sbc adx act g729 ilbc',
]
  .join(' ')
  .replaceAll(' ', ',')

/**
 * Returns the arguments that name a file as input. Without the prefix, a name with a colon would be taken for a protocol.
 * The list of protocols states what is ffmpeg's default for files: nothing in place of a recording may open connections.
 */
function inputFile(path: string): string[] {
  return ['-protocol_whitelist', 'file', '-format_whitelist', FORMATS, '-i', `file:${path}`]
}

function programAt(path: string) {
  return async (args: readonly string[], { input, from, signal }: RunOptions = {}): Promise<ProgramResult> => {
    const common = {
      ...(signal === undefined ? {} : { cancelSignal: signal }),
      maxBuffer: MAXIMUM_OUTPUT_BYTES,
      reject: false,
      windowsHide: true,
    } as const
    const source =
      from && execa(path, from, { ...common, stdin: 'ignore', encoding: 'buffer', buffer: { stdout: false } })
    const content = source?.stdout ?? input
    const result = await execa(path, args, {
      ...common,
      ...(content === undefined ? { stdin: 'ignore' as const } : { input: content }),
      encoding: 'buffer',
    })
    const sourceResult = await source
    signal?.throwIfAborted()
    return {
      succeeded: !result.failed && sourceResult?.failed !== true,
      stdout: result.stdout ?? new Uint8Array(),
      stderr: [sourceResult?.stderr, result.stderr].map((text) => new TextDecoder().decode(text)).join(''),
    }
  }
}

/** Describes the sound of a file. Throws an `AudioError` if it is no recording, has no sound, or is copy-protected. */
export async function describeAudio(ffmpeg: Ffmpeg, path: string, signal?: AbortSignal): Promise<AudioDescription> {
  const entries =
    'stream=codec_type,codec_name,codec_tag_string,duration,start_time:format=format_name,duration,start_time'
  const args = ['-v', 'warning', '-show_entries', entries, '-of', 'json', ...inputFile(path)]
  const { succeeded, stdout, stderr } = await ffmpeg.ffprobe(args, signal === undefined ? {} : { signal })
  if (!succeeded) throw unreadable(path, stderr)
  const { streams = [], format = {} } = JSON.parse(new TextDecoder().decode(stdout)) as {
    streams?: ProbedStream[]
    format?: ProbedFormat
  }
  if (streams.some(({ codec_tag_string: tag = '' }) => PROTECTED_ENTRIES.has(tag))) throw protectedAudio(path)
  const sound = streams.find(({ codec_type: type }) => type === 'audio')
  if (sound === undefined) throw new AudioError('no_audio', 'there is no sound in it.', { path })
  return {
    durationMs: stderr.includes(GUESSED) ? undefined : statedMs(sound, format),
    startMs: Math.max(0, Number(sound.start_time) - Number(format.start_time)) * 1000 || 0,
  }
}

/** Returns the duration that a file states, of which fewer samples may be left. */
function statedMs(sound: ProbedStream, format: ProbedFormat): number | undefined {
  const { format_name: names = '' } = format
  const durationMs = milliseconds(sound.duration) ?? milliseconds(format.duration)
  if (durationMs === undefined || TIMESTAMPED.test(names)) return undefined
  const statesEnd = STATE_ENDS.test(names) || sound.codec_name === 'opus'
  return statesEnd ? Math.max(0, durationMs - (milliseconds(format.start_time) ?? 0)) : durationMs
}

function milliseconds(seconds: string | undefined): number | undefined {
  const value = Number(seconds)
  return seconds !== undefined && Number.isFinite(value) && value >= 0 ? Math.round(value * 1000) : undefined
}

function unreadable(path: string, stderr: string): AudioError {
  const options = { path, cause: stderr.trim() }
  // The index of an MP4 is usually its last part, so that is what a truncated one has lost.
  if (stderr.includes('moov atom not found'))
    return new AudioError('damaged_audio', 'its index is missing; the file is probably incomplete.', options)
  return new AudioError('not_audio', 'ffmpeg finds no recording in it.', options)
}

/** Returns by how many milliseconds the sound of a converted recording is later than in its source. */
export function conversionDelayMs(sampleRate: number): number {
  return (DELAY_SAMPLES * 1000) / sampleRate
}

/**
 * Converts a recording into an MP3 that can be cut anywhere: one channel, a constant bit rate, and no frame that needs
 * bytes of the frames before it. The same source and ffmpeg result in the same bytes: no tags, no header frame, no date.
 */
export async function convert(ffmpeg: Ffmpeg, conversion: Conversion): Promise<void> {
  await createPrepared(conversion.output, (output) => run(ffmpeg, { ...conversion, output }, conversion.output))
}

async function run(ffmpeg: Ffmpeg, conversion: Conversion, named: string): Promise<void> {
  const { path, decodedRate, output, bitRate, signal } = conversion
  const samples = decodedRate && ['-f', 's16le', '-ar', `${decodedRate}`, '-ac', '1']
  // What an encoder of frames holds at a change of the sample rate is lost: 13 ms each. One of single samples holds none.
  const from = samples && ['-v', 'error', '-nostdin', ...inputFile(path), '-map', '0:a:0', ...samples, 'pipe:1']
  const input = samples ? [...samples, '-i', 'pipe:0'] : ['-nostdin', ...inputFile(path)]
  const read = ['-v', 'error', '-y', ...input, '-vn', '-sn', '-dn']
  const encode = ['-c:a', 'libmp3lame', '-ac', '1', '-b:a', `${bitRate}k`, '-reservoir', '0']
  const bare = ['-map_metadata', '-1', '-map_chapters', '-1', '-write_xing', '0', '-id3v2_version', '0']
  const exact = ['-fflags', '+bitexact', '-flags:a', '+bitexact']
  const args = [...read, ...encode, ...bare, ...exact, '-f', 'mp3', `file:${output}`]
  const { succeeded, stderr } = await ffmpeg.ffmpeg(args, { ...(from && { from }), ...(signal && { signal }) })
  const cause = `ffmpeg ${args.join(' ')}\n${stderr.trim().slice(-LONGEST_REPORT)}`
  // ffmpeg may report success although it could not write the end.
  if (/: (No space left|Disk quota exceeded|File too large)/.test(stderr))
    throw new AudioError('disk_full', `the disk is full: ${lastLine(stderr)}.`, { path: named, cause })
  if (succeeded) return
  if (/Permission denied|Read-only/.test(stderr))
    throw new AudioError('folder_unwritable', `it cannot be written: ${lastLine(stderr)}.`, { path: named, cause })
  if (stderr.includes('Unknown encoder'))
    throw new AudioError('ffmpeg_failed', `ffmpeg cannot write the MP3: ${lastLine(stderr)}.`, { path, cause })
  throw new AudioError('damaged_audio', `ffmpeg cannot decode it: ${lastLine(stderr)}.`, { path, cause })
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.replace(/\.$/, '') ?? ''
}

/** Finds the silences of an MP3 without a header frame, so that its times are those of its frames. */
export async function findSilences(mp3: Uint8Array, { path, ffmpeg, ...options }: Mp3Source): Promise<Silence[]> {
  const filter = `silencedetect=noise=${NOISE}:d=${SHORTEST_SECONDS}`
  const args = ['-hide_banner', '-nostats', '-v', 'info', ...MP3_INPUT, '-af', filter, '-f', 'null', '-']
  const { succeeded, stderr } = await ffmpeg.ffmpeg(args, { input: mp3, ...options })
  if (!succeeded) throw new AudioError('damaged_audio', 'ffmpeg cannot decode it.', { path, cause: stderr.trim() })
  return parseSilences(stderr)
}

/** Reads what `silencedetect` reports. A silence that lasts to the end may have no end of its own. */
export function parseSilences(report: string): Silence[] {
  const silences: Silence[] = []
  let startMs: number | undefined
  for (const [, edge, seconds] of report.matchAll(/silence_(start|end): (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)/g)) {
    const timeMs = Math.max(0, Number(seconds) * 1000)
    if (edge === 'start') startMs = timeMs
    else if (startMs !== undefined) {
      silences.push({ startMs, endMs: timeMs })
      startMs = undefined
    }
  }
  if (startMs !== undefined) silences.push({ startMs, endMs: Number.POSITIVE_INFINITY })
  return silences
}

/** Decodes MP3 frames into one channel of 16-bit samples at a low rate, enough to measure how loud they are. */
export async function decodeFrames(
  mp3: Uint8Array,
  { path, ffmpeg, ...options }: Mp3Source,
): Promise<{ samples: Int16Array; sampleRate: number }> {
  const args = ['-v', 'error', ...MP3_INPUT, '-ac', '1', '-ar', `${RATE}`, '-f', 's16le', 'pipe:1']
  const { succeeded, stdout, stderr } = await ffmpeg.ffmpeg(args, { input: mp3, ...options })
  if (!succeeded) throw new AudioError('damaged_audio', 'ffmpeg cannot decode it.', { path, cause: stderr.trim() })
  const view = new DataView(stdout.buffer, stdout.byteOffset, stdout.byteLength)
  const samples = Int16Array.from({ length: stdout.byteLength >> 1 }, (_, index) => view.getInt16(index * 2, true))
  return { samples, sampleRate: RATE }
}

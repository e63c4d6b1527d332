import { execa } from 'execa'

export interface ProgramResult {
  readonly succeeded: boolean
  readonly stdout: Uint8Array
  readonly stderr: string
}

export interface RunOptions {
  /** Bytes for the standard input, which is empty otherwise. */
  readonly input?: Uint8Array
  readonly signal?: AbortSignal
}

/** The installed programs; each call runs one of them to its end. */
export interface Ffmpeg {
  readonly ffmpeg: (args: readonly string[], options?: RunOptions) => Promise<ProgramResult>
  readonly ffprobe: (args: readonly string[], options?: RunOptions) => Promise<ProgramResult>
}

export interface FfmpegPaths {
  readonly ffmpegPath?: string
  readonly ffprobePath?: string
}

/** An hour of decoded speech at 8 kHz has 58 MB; the longest window that is decoded is a fifth of one. */
const MAXIMUM_OUTPUT_BYTES = 100_000_000

/** Returns ffmpeg if it and ffprobe can be run, otherwise undefined. */
export async function findFfmpeg({
  ffmpegPath = 'ffmpeg',
  ffprobePath = 'ffprobe',
}: FfmpegPaths = {}): Promise<Ffmpeg | undefined> {
  const programs = { ffmpeg: programAt(ffmpegPath), ffprobe: programAt(ffprobePath) }
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
export function inputFile(path: string): string[] {
  return ['-protocol_whitelist', 'file', '-format_whitelist', FORMATS, '-i', `file:${path}`]
}

function programAt(path: string) {
  return async (args: readonly string[], { input, signal }: RunOptions = {}): Promise<ProgramResult> => {
    const result = await execa(path, args, {
      ...(input === undefined ? { stdin: 'ignore' as const } : { input }),
      ...(signal === undefined ? {} : { cancelSignal: signal }),
      encoding: 'buffer',
      maxBuffer: MAXIMUM_OUTPUT_BYTES,
      reject: false,
      windowsHide: true,
    })
    signal?.throwIfAborted()
    return {
      succeeded: !result.failed,
      stdout: result.stdout ?? new Uint8Array(),
      stderr: new TextDecoder().decode(result.stderr ?? new Uint8Array()),
    }
  }
}

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { createFfmpegDecoder } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { planDecode } from '../../../api/request/audio/plan-decode.ts'
import { MPEG1_BITRATES, MPEG2_BITRATES, SAMPLE_RATES } from '../../support/media/mp3-generator.ts'
import { generateApe, generateId3v1, generateId3v2, generateLyrics3 } from '../../support/media/tag-generator.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { ROOT } from '../../support/processes/client-package.ts'
import { havePrograms, pathOf } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'

/** What the scripts below begin with: noise, encoded. `v` has a variable bit rate, `t` no header frame, `l` 22.05 kHz. */
const SOURCES = `
  for seconds in 0.5 3 5; do sox -R -n -r 44100 -c 2 $seconds.wav synth $seconds pinknoise; done
  for seconds in 0.5 3 5; do
    lame --quiet -b 128 $seconds.wav c$seconds.mp3; lame --quiet -V 4 $seconds.wav v$seconds.mp3
    lame --quiet -t -b 128 $seconds.wav t$seconds.mp3; lame --quiet -b 64 --resample 22.05 $seconds.wav l$seconds.mp3
  done
  lame --quiet --tt x --id3v1-only -b 64 0.5.wav one.mp3; lame --quiet --tt x --id3v2-only -b 64 0.5.wav two.mp3
  lame --quiet --resample 48 5.wav h5.mp3; lame --quiet --resample 8 5.wav e5.mp3`
const HUNDRED = 'for i in $(seq 100); do cat'

/** Commands that write an MP3 to the standard output or into `out`, by name. */
const TOOLS: Record<string, string> = {
  'lame, no header frame': 'cat t5.mp3',
  'lame, ID3v1': 'cat one.mp3',
  'lame, ID3v2': 'cat two.mp3',
  sox: 'sox 5.wav -C 128 $out',
  ffmpeg: 'ffmpeg -v error -i 5.wav -b:a 96k $out',
  'ffmpeg, cover': 'ffmpeg -v error -i v5.mp3 -f lavfi -i color=s=600x600:d=1 -map 0 -map 1 -c:a copy -frames:v 1 $out',
  'ffmpeg -c copy': 'ffmpeg -v error -ss 1 -t 2 -i v5.mp3 -c copy $out',
  'ffmpeg, segment': 'ffmpeg -v error -i v5.mp3 -c copy -f segment -segment_time 2 $out.%d.mp3; cat $out.1.mp3',
  'ffmpeg, segments joined': 'ffmpeg -v error -i c5.mp3 -c copy -f segment -segment_time 2 $out.%d.mp3; cat $out.?.mp3',
  'ffmpeg, concat': `printf "file '$PWD/v3.mp3'\\nfile '$PWD/v5.mp3'\\n" >$out.txt
    ffmpeg -v error -f concat -safe 0 -i $out.txt -c copy $out`,
  mp3wrap: 'mp3wrap $out v3.mp3 v5.mp3 >&2; cat *_MP3WRAP.mp3',
  mp3splt: 'mp3splt -q -d $out.d v5.mp3 0.01 0.04 >&2; cat $out.d/*',
  'mp3splt, parts joined': 'mp3splt -q -d $out.d c5.mp3 0.00 0.02 EOF >&2; cat $out.d/*',
  mp3cut: 'mp3cut -o $out -t 00:01-00:04 c5.mp3 >&2',
  mp3gain: 'cp c5.mp3 $out; mp3gain -q -r -k $out >&2',
  'joined, two variable': 'cat v3.mp3 v5.mp3',
  'joined, two constant': 'cat c3.mp3 c5.mp3',
  'joined, no header frames': 'cat t3.mp3 t5.mp3',
  'joined, header frame in the middle only': 'cat t3.mp3 v5.mp3',
  'joined, 100 clips': `${HUNDRED} v0.5.mp3; done`,
  'joined, 100 clips without header frames': `${HUNDRED} t0.5.mp3; done`,
  'joined, 100 clips with ID3v1': `${HUNDRED} one.mp3; done`,
  'joined, 100 clips with ID3v2': `${HUNDRED} two.mp3; done`,
  'joined, two rates': 'cat c5.mp3 l5.mp3',
  'joined, three rates': 'cat h5.mp3 e5.mp3 v5.mp3',
  'joined, 40 clips of alternating rates': 'for i in $(seq 20); do cat v0.5.mp3 l0.5.mp3; done',
  'cut within its last frame': 'head -c 50000 c5.mp3',
  'cut within its last frame, ID3v1': 'head -c 50000 c5.mp3; tail -c 128 one.mp3',
  'cut within its first frame': 'tail -c 50000 t5.mp3',
  'garbage in front': 'head -c 3000 /dev/zero; cat t5.mp3',
  'free format': 'lame --quiet --freeformat -b 400 5.wav $out',
  'free format behind other frames': 'cat c5.mp3; lame --quiet -t --freeformat -b 400 5.wav -',
  'layer II': 'ffmpeg -v error -i 5.wav -c:a mp2 -f mp2 $out',
  'zeros behind': 'cat t5.mp3; head -c 60000 /dev/zero',
  'a damaged header': 'head -c 4180 t5.mp3; printf 123456789; tail -c +4190 t5.mp3',
  'bytes missing in the middle': 'head -c 30000 t5.mp3; tail -c +30101 t5.mp3',
  'two ID3v2 in front': 'cat ID3v2 ID3v2 c5.mp3',
  'Lyrics3v2, APEv2 and ID3v1 behind': 'cat c5.mp3 Lyrics3v2 APEv2 ID3v1',
  'cover between':
    'cat c3.mp3; ffmpeg -v error -i t5.mp3 -f lavfi -i testsrc2=s=1200x1200:d=1 -map 0 -map 1 -c:a copy -frames:v 1 $out; cat $out',
}
const TAGS = {
  ID3v1: generateId3v1(),
  ID3v2: generateId3v2(new Uint8Array(5000)),
  'ID3v2.4 with footer': generateId3v2(new Uint8Array(500), { footer: true }),
  APEv1: generateApe(1),
  APEv2: generateApe(2),
  Lyrics3: generateLyrics3(1),
  Lyrics3v2: generateLyrics3(2),
}
/** Options of lame by name. Each is encoded at every rate, so the bit rates are valid for all three MPEG versions. */
const ENCODINGS: Record<string, string> = {
  'constant, mono': '-b 64 -m m',
  'constant, stereo, no header frame': '-t -b 64 -m s',
  'constant, joint stereo, CRC': '-p -b 64 -m j',
  'constant, forced joint stereo': '-b 128 -m f',
  'constant, dual channel, no header frame, CRC': '-t -p -b 96 -m d',
  variable: '-V 4 -m j',
  'variable, no header frame': '-t -V 2 -m s',
  average: '--abr 56 -m j',
  'ID3v1 and ID3v2': '--add-id3v2 --pad-id3v2-size 5000 --tt Title -b 64 -m s',
}

for (const tag of Object.keys(TAGS)) {
  TOOLS[`${tag} in front`] = `cat '${tag}' c5.mp3`
  TOOLS[`${tag} between`] = `cat c3.mp3 '${tag}' c5.mp3`
  TOOLS[`${tag} behind`] = `cat c5.mp3 '${tag}'`
}
for (const rate of SAMPLE_RATES) {
  const bitRates = rate >= 32_000 ? MPEG1_BITRATES : MPEG2_BITRATES
  const options = {
    ...ENCODINGS,
    'lowest bit rate': `-b ${bitRates[0]} -m m`,
    'highest bit rate': `-b ${bitRates[13]} -m m`,
  }
  for (const [name, encoding] of Object.entries(options))
    TOOLS[`lame, ${rate} Hz, ${name}`] = `lame --quiet ${encoding} --resample ${rate / 1000} 0.5.wav $out`
}

/**
 * Where price or claim are not what mpg123 plays, and what they are instead. Decided before the run: a difference that is
 * not listed fails, and so does a listed one that is gone.
 */
const EXCEPTIONS: Record<string, Pick<Row, 'pricedMs' | 'claimedMs'>> = {
  'free format': { pricedMs: 'MP3 frames in free format', claimedMs: 0 },
  'free format behind other frames': { pricedMs: 'MP3 frames in free format', claimedMs: 5042 },
  'layer II': { pricedMs: 'MPEG layer II audio', claimedMs: 0 },
}

interface Row {
  readonly name: string
  readonly trueMs: number
  /** Or why it is refused. */
  readonly pricedMs: number | string
  /** What ffmpeg decodes, held against the price. */
  readonly decoded: string
  readonly claimedMs: number
}

const parallel = pLimit(2)

/** Returns what mpg123 plays: every sample of every frame but a leading header frame. It resamples several rates. */
async function playedMs(path: string, hasSeveralRates: boolean): Promise<number> {
  const rate = hasSeveralRates ? ['-r', '44100'] : []
  const wave = await runProgram('mpg123', ['-q', '--no-gapless', '--mono', '-e', 's16', ...rate, '-w', '-', path])
  const headers = wave.toString('latin1').split('WAVEfmt ').length - 1
  return Math.ceil((((wave.length - headers * 44) / 2) * 1000) / wave.readUInt32LE(24))
}

/** Returns what the program of CALLING.md claims of each file. */
async function claimsOf(folder: string, names: readonly string[]): Promise<Record<string, number>> {
  const page = await readFile(join(ROOT, 'CALLING.md'), 'utf8')
  const [program = ''] = /\/\*\* Kilobit\/s of MPEG 1[^]*?\n\]\n/.exec(page) ?? []
  const [functions = ''] = /\/\*\* Adds up the frames[^]*?(?=```)/.exec(page) ?? []
  const run = `const entries = ${JSON.stringify(names)}.map((name) => [name, durationMs(readFileSync(name + '.mp3'))])
    console.log(JSON.stringify(Object.fromEntries(entries)))`
  await writeFile(join(folder, 'claims.mts'), `import { readFileSync } from 'node:fs'\n${program}${functions}${run}`)
  const stdout = await runProgram('sh', ['-ec', `cd ${folder}; '${process.execPath}' claims.mts`])
  return JSON.parse(stdout.toString()) as Record<string, number>
}

function usdcOf(durationMs: number): string {
  return (Math.max(5034, Math.ceil((durationMs * 122_000) / 3_600_000)) / 1e6).toFixed(6)
}

const PROGRAMS = ['ffmpeg', 'lame', 'mp3cut', 'mp3gain', 'mp3splt', 'mp3wrap', 'mpg123', 'sox'] as const

describe.skipIf(!havePrograms(...PROGRAMS))('recordings of other tools', () => {
  let folder = ''
  let rows: readonly Row[] = []

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-tools-'))
    const shell = (script: string) => runProgram('sh', ['-ec', `cd ${folder}; ${script}`])
    await shell(SOURCES)
    for (const [name, tag] of Object.entries(TAGS)) await writeFile(join(folder, name), tag)
    const decode = createFfmpegDecoder({ ffmpegPath: pathOf('ffmpeg'), timeLimitMs: PATIENCE_MS })
    const price = async (audio: Uint8Array) => {
      const walk = walkFrames(audio)
      if (walk.outcome !== 'mp3') return { pricedMs: walk.found, decoded: walk.found }
      const decoded = await decode(audio, planDecode(audio, walk))
      if (decoded.outcome !== 'agrees') return { pricedMs: JSON.stringify(decoded), decoded: 'other' }
      const isExact = walk.parts.length === 1 && walk.parts[0]?.samples === decoded.decodedSamples
      return { pricedMs: walk.durationMs, decoded: isExact ? 'to the sample' : 'otherwise' }
    }
    const make = async ([name, script]: [string, string]) => {
      const path = join(folder, `${name}.mp3`)
      const printed = await shell(`out='${folder}/${name}.mp3'; ${script.replaceAll('$out', '"$out"')}`)
      if (printed.length > 0) await writeFile(path, printed)
      return { name, trueMs: await playedMs(path, name.includes('rates')), ...(await price(await readFile(path))) }
    }
    const made = await Promise.all(Object.entries(TOOLS).map((tool) => parallel(make, tool)))
    const claims = await claimsOf(folder, Object.keys(TOOLS))
    rows = made.map((row) => ({ ...row, claimedMs: claims[row.name] ?? Number.NaN }))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test('are priced, and described by the program of CALLING.md, as long as mpg123 plays them', () => {
    const differing = rows.filter(({ name, trueMs, pricedMs, claimedMs }) => {
      const expected = EXCEPTIONS[name] ?? { pricedMs: trueMs, claimedMs: trueMs }
      return pricedMs !== expected.pricedMs || claimedMs !== expected.claimedMs
    })
    console.info(['file | true ms | price | program', ...rows.map(tableLine)].join('\n'))
    expect(differing).toEqual([])
    expect(Object.keys(EXCEPTIONS).filter((name) => !(name in TOOLS))).toEqual([])
  })

  test('of one encoding decode to the sample with ffmpeg, too', () => {
    const encoded = rows.filter(({ name }) => name.startsWith('lame, '))
    expect(encoded.length).toBeGreaterThan(100)
    expect(encoded.filter(({ decoded }) => decoded !== 'to the sample')).toEqual([])
  })
})

function tableLine({ name, trueMs, pricedMs, claimedMs }: Row): string {
  const price = typeof pricedMs === 'string' ? pricedMs : `${pricedMs} ms, ${usdcOf(pricedMs)} USDC`
  return [name, trueMs, price, claimedMs].join(' | ')
}

import type { SubtitleOptions, TranscribedWord } from '../../../../client/subtitles/subtitles.ts'

export interface WordList {
  readonly words: TranscribedWord[]
  readonly options: SubtitleOptions
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }
type Word = Mutable<TranscribedWord>

const SENTENCES: Readonly<Record<string, string>> = {
  en: 'The last tram leaves at midnight, and nobody who lives beyond the river wants to walk home in the rain. Yes! Dr. Smith wrote that book because the archives were closed until 1984.',
  de: 'Die Donaudampfschifffahrtsgesellschaft wurde gegründet, weil niemand mehr mit dem Pferdewagen fahren wollte. Ach so? Das ist nicht der Grund, aber es klingt gut.',
  fr: "Le dernier train part à minuit, mais personne ne l'a pris parce que la gare était fermée. Ah bon ? Je ne savais pas qu'il y avait une grève.",
  es: '¿Quién dijo que el tren sale a medianoche? No lo sé, pero mi hermana y yo vamos a esperar hasta que llegue.',
  ru: 'Последний трамвай уходит в полночь, и никто не хочет идти домой под дождём. Да! Это правда.',
  ar: 'يغادر آخر قطار عند منتصف الليل، ولا أحد يريد المشي إلى المنزل تحت المطر. هل هذا صحيح؟ نعم.',
  he: 'החשמלית האחרונה יוצאת בחצות, ואף אחד לא רוצה ללכת הביתה בגשם. באמת? כן.',
  hi: 'आखिरी ट्राम आधी रात को निकलती है और कोई भी बारिश में पैदल घर नहीं जाना चाहता। सच में?',
  zh: '最后一班电车在午夜出发，住在河对岸的人都不想在雨中走回家。真的吗？是的，我们今天要讨论的是铁路的历史。',
  ja: '最終の電車は真夜中に出発しますが、雨の中を歩いて帰りたい人は誰もいません。本当ですか？はい、そうです。',
  ko: '마지막 전차는 자정에 출발하는데 비를 맞으며 집에 걸어가고 싶은 사람은 없습니다. 정말요? 네.',
  th: 'รถรางเที่ยวสุดท้ายออกตอนเที่ยงคืนและไม่มีใครอยากเดินกลับบ้านท่ามกลางสายฝน จริงหรือ',
}
const LANGUAGES = Object.keys(SENTENCES)
const UNSPACED = new Set(['zh', 'ja', 'th'])
const FULL_WIDTH = new Set(['zh', 'ja', 'ko'])

const HOSTILE_TEXTS = [
  '-->',
  '00:00:01,000 --> 00:00:02,000',
  '<b>bold</b>',
  '<v Eve>',
  '&amp;lt;',
  '{\\an8}',
  '42',
  'WEBVTT',
  'NOTE',
  'a\tb\nc\r\n\r\nd',
  '\u0000\u0007',
  '\u202eevil\u2066',
  '\ud800',
  '\u200b',
  '',
  '   ',
  'zalgo' + '\u0301\u0323'.repeat(40),
  '👩‍👩‍👧‍👦🇩🇪❤️',
  'https://example.org/a/very/long/path/that/no/line/can/hold?and=a&query=string#fragment',
  'Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz',
  '\u3164',
  '「『',
  '\u2028\u2029\u0085',
  'x'.repeat(600),
  '漢'.repeat(90),
]
const EVENTS = ['(laughter)', '[music]', '*applause*', 'door slams', '（拍手）', '()', '♪']
const BAD_TIMES = [null, undefined, Number.NaN, Infinity, -Infinity, -1, 1e300, -0]

/** Draws a word list and options. The same seed always draws the same ones. */
export function drawWordList(seed: number): WordList {
  const random = mulberry32(seed)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const chance = (share: number) => random() < share
  const between = (least: number, most: number) => least + random() * (most - least)

  const language = pick(LANGUAGES)
  const kinds = {
    speakers: chance(0.5) ? 1 + Math.floor(between(1, 4)) : 0,
    overlaps: chance(0.3),
    unpunctuated: chance(0.25),
    events: chance(0.3) ? 0.1 : 0,
    hostile: chance(0.2) ? 0.15 : 0,
    badTimes: chance(0.2) ? 0.2 : 0,
    spaces: chance(0.8),
  }
  const secondsPerColumn = pick([0.03, 0.045, 0.055, 0.065, 0.08, 0.12])
  const texts = textsOf(language, kinds.unpunctuated, kinds.spaces && chance(0.5))
  const count = Math.floor(between(0, chance(0.05) ? 400 : 90))
  const words: Word[] = []
  let time = between(0, 3) + (chance(0.03) ? 400_000 : 0)
  let speaker = 0
  for (let index = 0; index < count; index++) {
    const event = chance(kinds.events)
    const text = chance(kinds.hostile)
      ? pick(HOSTILE_TEXTS)
      : event
        ? pick(EVENTS)
        : (texts[index % texts.length] as string)
    // A full-width character is about a syllable or two, and takes two columns.
    const columns = text.length * (FULL_WIDTH.has(language) ? 2 : 1)
    const duration = event
      ? between(0.1, chance(0.1) ? 20 : 3)
      : Math.min(5, columns * secondsPerColumn * between(0.7, 1.3))
    if (kinds.speakers > 0 && chance(0.08)) {
      speaker = Math.floor(random() * kinds.speakers)
      if (kinds.overlaps) time = Math.max(0, time - between(0, 1.5))
    }
    const word: Word = { word: text, start: time, end: time + duration, type: event ? 'audio_event' : 'word' }
    if (kinds.speakers > 0 && !(event && chance(0.5))) word.speaker = `speaker_${speaker}`
    if (chance(kinds.badTimes)) word.start = chance(0.5) ? between(0, 200) : (pick(BAD_TIMES) as number)
    if (chance(kinds.badTimes)) word.end = chance(0.5) ? (word.start ?? null) : (pick(BAD_TIMES) as number)
    words.push(word)
    time += duration
    const pause = chance(0.6) ? 0 : chance(0.9) ? between(0, 0.4) : between(0.4, chance(0.2) ? 15 : 2)
    if (kinds.spaces && !(UNSPACED.has(language) && !event)) {
      words.push({ word: ' ', start: time, end: time + pause, type: 'spacing' })
    }
    time += pause
  }
  return { words, options: drawOptions(language, { pick, chance, between }) }
}

function drawOptions(
  language: string,
  {
    pick,
    chance,
    between,
  }: {
    pick: <T>(values: readonly T[]) => T
    chance: (share: number) => boolean
    between: (least: number, most: number) => number
  },
): SubtitleOptions {
  return {
    style: pick(['netflix', 'netflix', 'bbc', 'plain']),
    speakers: pick(['dash', 'label', 'none']),
    ...(chance(0.7) ? { language } : {}),
    ...(chance(0.2) ? { maximumLine: Math.floor(between(10, 60)) } : {}),
    ...(chance(0.2) ? { maximumLines: Math.floor(between(1, 5)) } : {}),
    ...(chance(0.2) ? { framesPerSecond: pick([23.976, 25, 29.97, 60]) } : {}),
  }
}

/** Splits a language's sentences into the items that a vendor returns: words, single characters or whole phrases. */
function textsOf(language: string, unpunctuated: boolean, byCharacter: boolean): string[] {
  const sentence = SENTENCES[language] ?? ''
  const text = unpunctuated ? sentence.replace(/\p{P}/gu, '').toLowerCase() : sentence
  if (!UNSPACED.has(language)) return text.split(' ')
  if (byCharacter) return Array.from(new Intl.Segmenter().segment(text.replaceAll(' ', '')), ({ segment }) => segment)
  return text.split(/(?<=[，。？、 ])/u)
}

function mulberry32(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let value = Math.imul(state ^ (state >>> 15), 1 | state)
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296
  }
}

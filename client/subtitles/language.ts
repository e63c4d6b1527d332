import type { TranscribedWord } from './words.ts'

/** Languages that are written like another one of the rules. */
const WRITTEN_LIKE: Readonly<Record<string, string>> = { cmn: 'zh', yue: 'zh', wuu: 'zh', nan: 'zh', hak: 'zh' }

const DETECTION_CHARACTERS = 20_000
/** Japanese mixes kana with more Chinese characters than kana, so a tenth shows it. */
const KANA_SHARE = 0.1
const SCRIPT_SHARE = 0.3

/** Returns the primary language: from a BCP 47 or ISO 639-3 tag, otherwise from the script, `und` if it is unknown. */
export function languageOf(tag: string | undefined, words: readonly TranscribedWord[]): string {
  const named = tag === undefined ? undefined : primaryLanguage(tag)
  return named ?? languageOfScript(words)
}

function primaryLanguage(tag: string): string | undefined {
  try {
    const language = new Intl.Locale(tag.replaceAll('_', '-')).language
    return language === 'und' ? undefined : (WRITTEN_LIKE[language] ?? language)
  } catch {
    return undefined
  }
}

function languageOfScript(words: readonly TranscribedWord[]): string {
  let sample = ''
  for (const { word } of words) {
    sample += word.slice(0, DETECTION_CHARACTERS)
    if (sample.length >= DETECTION_CHARACTERS) break
  }
  const letters = count(sample, /\p{L}/gu)
  if (letters === 0) return 'und'
  const share = (script: RegExp) => count(sample, script) / letters
  if (share(/[\p{sc=Hiragana}\p{sc=Katakana}]/gu) >= KANA_SHARE) return 'ja'
  if (share(/\p{sc=Hangul}/gu) >= SCRIPT_SHARE) return 'ko'
  if (share(/\p{sc=Han}/gu) >= SCRIPT_SHARE) return 'zh'
  if (share(/\p{sc=Thai}/gu) >= SCRIPT_SHARE) return 'th'
  return 'und'
}

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0
}

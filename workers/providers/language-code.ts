/**
 * The languages of speech models: ISO 639-1 code (where there is one), ISO 639-3 code, and the English name that
 * OpenAI-style servers report. Source: github.com/openai/whisper, whisper/tokenizer.py, LANGUAGES.
 */
const LANGUAGES = `
af afr afrikaans; am amh amharic; ar ara arabic; as asm assamese; az aze azerbaijani; ba bak bashkir; be bel belarusian;
bg bul bulgarian; bn ben bengali; bo bod tibetan; br bre breton; bs bos bosnian; ca cat catalan; cs ces czech;
cy cym welsh; da dan danish; de deu german; el ell greek; en eng english; es spa spanish; et est estonian; eu eus basque;
fa fas persian; fi fin finnish; fo fao faroese; fr fra french; ga gle irish; gl glg galician; gu guj gujarati;
ha hau hausa; haw haw hawaiian; he heb hebrew; hi hin hindi; hr hrv croatian; ht hat haitian creole; hu hun hungarian;
hy hye armenian; id ind indonesian; is isl icelandic; it ita italian; ja jpn japanese; jw jav javanese; ka kat georgian;
kk kaz kazakh; km khm khmer; kn kan kannada; ko kor korean; la lat latin; lb ltz luxembourgish; ln lin lingala;
lo lao lao; lt lit lithuanian; lv lav latvian; mg mlg malagasy; mi mri maori; mk mkd macedonian; ml mal malayalam;
mn mon mongolian; mr mar marathi; ms msa malay; mt mlt maltese; my mya myanmar; ne nep nepali; nl nld dutch;
nn nno nynorsk; no nor norwegian; oc oci occitan; pa pan punjabi; pl pol polish; ps pus pashto; pt por portuguese;
ro ron romanian; ru rus russian; sa san sanskrit; sd snd sindhi; si sin sinhala; sk slk slovak; sl slv slovenian;
sn sna shona; so som somali; sq sqi albanian; sr srp serbian; su sun sundanese; sv swe swedish; sw swa swahili;
ta tam tamil; te tel telugu; tg tgk tajik; th tha thai; tk tuk turkmen; tl tgl tagalog; tr tur turkish; tt tat tatar;
uk ukr ukrainian; ur urd urdu; uz uzb uzbek; vi vie vietnamese; yi yid yiddish; yo yor yoruba; yue yue cantonese;
zh zho chinese; jv jav javanese
`
  .trim()
  .split(/;\s*/)
  .map((entry) => entry.split(/\s+/))
  .map(([short = '', code = '', ...name]) => ({ short, code, name: name.join(' ') }))

const codes = new Map(LANGUAGES.flatMap(({ short, code, name }) => [short, code, name].map((key) => [key, code])))
const shortCodes = new Map(LANGUAGES.toReversed().map(({ short, code }) => [code, short]))

/**
 * Returns the ISO 639-3 code of a language that a vendor reports as a code (`en`, `en-US`, `eng`) or by its English
 * name (`english`). An unknown code is returned as it is, without its region; anything else is `undefined`.
 */
export function languageCode(reported: string | null | undefined): string | undefined {
  const language = (reported ?? '').trim().toLowerCase()
  const known = codes.get(language)
  if (known !== undefined) return known
  const primary = /^([a-z]{2,3})(?:[-_][a-z0-9]+)*$/.exec(language)?.[1]
  return primary === undefined ? undefined : (codes.get(primary) ?? primary)
}

/** Returns a code without its region, in lower case (`en-US`: `en`), for vendors that accept none; other text unchanged. */
export function withoutRegion(language: string): string {
  return /^([a-z]{2,3})(?:[-_][a-z0-9]+)*$/.exec(language.trim().toLowerCase())?.[1] ?? language
}

/** Returns the ISO 639-1 code where there is one, for vendors that accept no other, without a region. */
export function shortLanguageCode(language: string): string {
  const primary = withoutRegion(language)
  return shortCodes.get(primary) ?? primary
}

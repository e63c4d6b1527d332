import type { Voice } from './catalog.ts'

/** The languages of the multilingual speech model, in ISO 639-1 codes; every voice speaks all of them. */
const LANGUAGES =
  'en ar bg cs da de el es fi fil fr hi hr hu id it ja ko ms nl no pl pt ro ru sk sv ta tr uk vi zh'.split(' ')

/** The 20 public voice aliases, in the order they are listed. The deployments file maps each to an upstream voice. */
export const publishedVoices: readonly Voice[] = [
  voice('darian', 'Even and confident; the default, fit for announcements and instructions.'),
  voice('talia', 'Bright and quick, with a smile; for short messages.'),
  voice('elara', 'Warm and unhurried; for stories.'),
  voice('baxter', 'Deep and dry, with some gravel.'),
  voice('eldrin', 'Old and thoughtful, as if remembering.'),
  voice('kellan', 'Relaxed and friendly, like a colleague.'),
  voice('elowen', 'Soft and calm; for guided breathing and sleep.'),
  voice('kaelen', 'Young and eager; for games and trailers.'),
  voice('lawrence', 'Formal and measured; for news and long documents.'),
  voice('alicia', 'Clear and businesslike; for telephone menus.'),
  voice('maisie', 'Light and playful; for children.'),
  voice('warren', 'Low and steady; for documentaries.'),
  voice('jade', 'Crisp and modern; for product tours.'),
  voice('eddie', 'Lively and chatty, like a radio host.'),
  voice('caleb', 'Gentle and sincere.'),
  voice('sawyer', 'Rough and laid-back.'),
  voice('finley', 'Neutral and precise; for reading numbers and code.'),
  voice('florence', 'Elegant and slow, with long vowels.'),
  voice('wyatt', 'Plain and firm; for warnings.'),
  voice('bella', 'Cheerful and expressive; for dialogues.'),
]

function voice(id: string, description: string): Voice {
  const name = id.charAt(0).toUpperCase() + id.slice(1)
  return { id, name, description, languages: LANGUAGES, retirementDate: null }
}

import type { Model } from './catalog.ts'

export type CategoryId = Model['category']
export type Modality = 'text' | 'image' | 'video' | 'audio'

/** What all models of one category have in common: where they are called, what goes in and what comes out. */
export interface Category {
  readonly id: CategoryId
  readonly label: string
  readonly description: string
  readonly endpoints: readonly { readonly method: 'POST'; readonly path: string; readonly compatibility: string }[]
  readonly inputModalities: readonly Modality[]
  readonly outputModalities: readonly Modality[]
}

/** The four capability categories (specification, What the service does 4 and 5). */
export const categories: readonly Category[] = [
  {
    id: 'text_generation',
    label: 'Text generation',
    description: 'Answers in text to text and images, with tools and structured output.',
    endpoints: [
      { method: 'POST', path: '/v1/chat/completions', compatibility: 'chat_completions' },
      { method: 'POST', path: '/v1/messages', compatibility: 'messages' },
    ],
    inputModalities: ['text', 'image'],
    outputModalities: ['text'],
  },
  {
    id: 'image_generation',
    label: 'Image generation',
    description: 'Draws one image from a prompt, hosted for seven days.',
    endpoints: [{ method: 'POST', path: '/v1/images/generations', compatibility: 'image_generations' }],
    inputModalities: ['text'],
    outputModalities: ['image'],
  },
  {
    id: 'text_to_speech',
    label: 'Text to speech',
    description: 'Speaks a text as MP3, hosted for 24 hours.',
    endpoints: [{ method: 'POST', path: '/v1/audio/speech', compatibility: 'audio_speech' }],
    inputModalities: ['text'],
    outputModalities: ['audio'],
  },
  {
    id: 'speech_to_text',
    label: 'Speech to text',
    description:
      'Transcribes one MP3, with word times, speakers and audio events. A third-party speech provider processes the audio and may retain it: do not submit sensitive or regulated audio.',
    endpoints: [{ method: 'POST', path: '/v1/audio/transcriptions', compatibility: 'audio_transcriptions' }],
    inputModalities: ['audio'],
    outputModalities: ['text'],
  },
]

/** The category of this id; every model has one. */
export function categoryOf(id: CategoryId): Category {
  const category = categories.find((candidate) => candidate.id === id)
  if (!category) throw new Error(`there is no category ${id}`)
  return category
}

export type CategoryId = 'text_generation' | 'image_generation' | 'text_to_speech' | 'speech_to_text'
export type Modality = 'text' | 'image' | 'video' | 'audio'

/** The properties that all models of a category share. Their endpoints are the operations of the category. */
export interface Category {
  readonly id: CategoryId
  readonly label: string
  readonly description: string
  readonly inputModalities: readonly Modality[]
  readonly outputModalities: readonly Modality[]
  /** The basis of a charge, as `GET /v1/pricing` names it. */
  readonly billingMode: string
}

/** The four capability categories, in the order they are listed. */
export const categories: readonly Category[] = [
  {
    id: 'text_generation',
    label: 'Text generation',
    description: 'Generates text from text and images, with tools and structured output.',
    inputModalities: ['text', 'image'],
    outputModalities: ['text'],
    billingMode: 'measured_tokens',
  },
  {
    id: 'image_generation',
    label: 'Image generation',
    description: 'Generates one image from a prompt, hosted for seven days.',
    inputModalities: ['text'],
    outputModalities: ['image'],
    billingMode: 'per_image_specification',
  },
  {
    id: 'text_to_speech',
    label: 'Text to speech',
    description: 'Speaks a text as MP3, hosted for 24 hours.',
    inputModalities: ['text'],
    outputModalities: ['audio'],
    billingMode: 'measured_characters',
  },
  {
    id: 'speech_to_text',
    label: 'Speech to text',
    description:
      'Transcribes one MP3, with word times, speakers and audio events. A third-party speech provider processes the audio and may retain it: do not submit sensitive or regulated audio.',
    inputModalities: ['audio'],
    outputModalities: ['text'],
    billingMode: 'measured_audio_duration',
  },
]

/** Returns the category with this id; every model has one. */
export function categoryOf(id: CategoryId, among: readonly Category[] = categories): Category {
  const category = among.find((candidate) => candidate.id === id)
  if (!category) throw new Error(`there is no category ${id}`)
  return category
}

const LEAVE_OUT = 'Leave it out'

const TIMES = 'For times of words, send timestamps "word"; words then has the start and end of each in seconds.'
const AUDIO = 'Send the MP3 itself: its Base64 in audio_base64, or in a form the part "file". URLs are not fetched.'
const SPEAKERS = `${LEAVE_OUT}; diarize true labels each word with its speaker.`

/**
 * What to send instead of options that clients of other transcription services send, as the last sentence of the error
 * about the field.
 */
export const TRANSCRIPTION_ADVICE: Readonly<Record<string, string>> = {
  response_format:
    'The plain text is text of the JSON answer; for subtitles (SRT, VTT), send timestamps "word" and write a cue for every few words, from the first one’s start to the last one’s end, as the client command "farebox transcribe" does.',
  timestamp_granularities: TIMES,
  'timestamp_granularities[]': TIMES,
  timestamps_granularity: TIMES,
  stream: `${LEAVE_OUT}: the transcript is sent as a whole.`,
  chunking_strategy: `${LEAVE_OUT}: the audio is transcribed as a whole.`,
  prompt: `${LEAVE_OUT}: the model takes no prompt.`,
  temperature: `${LEAVE_OUT}: the model has no temperature.`,
  include: `${LEAVE_OUT}: log probabilities are not offered.`,
  'include[]': `${LEAVE_OUT}: log probabilities are not offered.`,
  known_speaker_names: SPEAKERS,
  'known_speaker_names[]': SPEAKERS,
  known_speaker_references: SPEAKERS,
  'known_speaker_references[]': SPEAKERS,
  model_id: 'Send the model in model.',
  language_code: 'Send the language in language.',
  file_format: 'Leave it out; the audio is an MP3.',
  file: 'In JSON, send the MP3 as Base64 in audio_base64; file is the name of the part in a form.',
  audio_base64: 'In a form, send the MP3 itself as the file part "file".',
  audio: AUDIO,
  audio_url: AUDIO,
  file_url: AUDIO,
  url: AUDIO,
  cloud_storage_url: AUDIO,
}

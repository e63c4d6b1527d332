/**
 * Endings of files that are looked at in a folder. A file that is named itself is tried whatever its ending. Not `ts` and
 * `mts`: they are more often TypeScript than MPEG transport streams.
 */
const ENDINGS: ReadonlySet<string> = new Set(
  [
    'mp3 mp2 mpga mpa wav wave w64 flac alac ape wv tta tak aac m4a m4b m4p m4r mp4 m4v mov qt 3gp 3g2 f4v',
    'ogg oga ogv ogx opus spx webm weba mkv mka wma wmv asf aif aiff aifc caf au snd amr awb gsm voc',
    'ac3 eac3 dts mpc ra ram rm rmvb avi mpg mpeg vob m2ts flv dsf dff mxf',
  ]
    .join(' ')
    .split(' '),
)

/** Returns whether a name ends like that of a recording. */
export function looksLikeRecording(name: string): boolean {
  const dot = name.lastIndexOf('.')
  return dot > 0 && ENDINGS.has(name.slice(dot + 1).toLowerCase())
}

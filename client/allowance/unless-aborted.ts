import { FareboxError } from '../wire/farebox-error.ts'

/** Waits for what others wait for as well; an interrupted call leaves it to them. */
export async function unlessAborted<Result>(shared: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (signal === undefined) return await shared
  const race = new AbortController()
  const aborted = new Promise<never>((_resolve, reject) => {
    const abort = () => reject(interrupted())
    if (signal.aborted) abort()
    // The listener ends with the race.
    else signal.addEventListener('abort', abort, { once: true, signal: race.signal })
  })
  try {
    return await Promise.race([shared, aborted])
  } finally {
    race.abort()
  }
}

function interrupted(): FareboxError {
  return new FareboxError({
    code: 'aborted',
    problem: 'The call was interrupted.',
    money: 'none',
    advice: 'Repeat the call with the same key: it is charged at most once.',
  })
}

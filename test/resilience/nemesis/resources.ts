/** Runs tasks of the same resource one after another. */
export interface Resources {
  hold<T>(resource: string, work: () => Promise<T>): Promise<T>
}

export function createResources(): Resources {
  const last = new Map<string, Promise<unknown>>()
  return {
    hold: <T>(resource: string, work: () => Promise<T>) => {
      const done = (last.get(resource) ?? Promise.resolve()).then(work)
      last.set(
        resource,
        done.catch(() => undefined),
      )
      return done
    },
  }
}

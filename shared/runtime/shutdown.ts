/**
 * Runs `stop` once, on SIGTERM or SIGINT, and exits with its outcome. A second signal or the deadline exits
 * immediately, which loses nothing: durable state is consistent at any moment.
 */
export function stopOnSignal(stop: () => Promise<void>, deadlineMs: number): void {
  let stopping = false
  const onSignal = () => {
    if (stopping) process.exit(1)
    stopping = true
    setTimeout(() => process.exit(1), deadlineMs).unref()
    stop().then(
      () => process.exit(0),
      () => process.exit(1),
    )
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
}

/**
 * Runs `stop` once, on SIGTERM or SIGINT, and ends the process with its outcome. A second signal ends it at once, and so
 * does the deadline: durable state is safe at any moment, so nothing is lost by force.
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

import { uncharged } from './farebox-error.ts'

/** Throws unless the URL is safe: signatures and recordings must not travel in plain text, except to this machine. */
export function requireSafeUrl(baseUrl: string): void {
  const { protocol, hostname } = URL.canParse(baseUrl) ? new URL(baseUrl) : { protocol: '', hostname: '' }
  const isLoopback = ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback)) return
  throw uncharged(
    'invalid_url',
    `${JSON.stringify(baseUrl)} is not an https URL.`,
    'Set the URL of the service, such as https://farebox.example; http is allowed for this machine only.',
  )
}

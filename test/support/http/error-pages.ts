/** Statuses and bodies with which proxies and gateways answer in place of the server behind them. */
export const ERROR_STATUSES = [502, 503, 504, 403, 404] as const

/** nginx's own page, and what other gateways send. */
export const ERROR_BODIES = {
  HTML: {
    type: 'text/html',
    body: (status: number) =>
      `<html>\r\n<head><title>${status}</title></head>\r\n<body>\r\n<center><h1>${status}</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n`,
  },
  text: { type: 'text/plain', body: (status: number) => `upstream: ${status}\n` },
  JSON: { type: 'application/json', body: (status: number) => JSON.stringify({ error: { status } }) },
  'an empty body': { type: 'text/plain', body: () => '' },
} as const

/** Returns whether an operator returned the result after a review: without a charge, and so without a receipt. */
export function isReServed(headers: Headers): boolean {
  return headers.get('x-resolution') === 're_served'
}

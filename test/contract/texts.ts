import { inBytes } from '../../src/engine/contract.js'
import { limits } from '../../src/engine/index.js'
import type { HttpReason } from '../../src/adapters/http/http-error.js'
import { defaultHttpLimits as http, jsonLimits } from '../../src/adapters/http/limits.js'

/** The meanings of the reasons of the HTTP adapter. */
export const reasonMeanings: Readonly<Record<HttpReason, string>> = {
  BODY_TOO_LARGE: 'The request body is larger than the limit of the route, `limit`.',
  DEADLINE_EXCEEDED: 'The operation took too long. It continues and may still take effect.',
  HEADERS_TOO_LARGE: 'The request headers are too long.',
  HOST_NOT_ALLOWED: 'The service does not accept this host name.',
  INVALID_ARGUMENT: 'An argument has the wrong type or form; `field` names it.',
  LOCK_TIMEOUT: 'The lock was not released within the longest wait that the service allows, `limit`.',
  METHOD_NOT_ALLOWED: 'The path does not have this method. The header `Allow` lists its methods.',
  ORIGIN_NOT_ALLOWED: 'The service does not accept requests from pages of this origin.',
  QUOTA:
    'The session has the most items of this kind, or too many requests run at once; `limit` gives the maximum.',
  REQUEST_TIMEOUT: 'The request arrived too slowly.',
  ROUTE_NOT_FOUND: 'The path does not exist.',
  TOO_LARGE: 'A value is over its limit, `limit`.',
  UNAUTHENTICATED: 'The request has no token, or the service does not know it.',
  UNAVAILABLE: 'The service is closing, or cannot process the request now.',
  UNSUPPORTED_MEDIA_TYPE: 'The route does not accept the type of the body.',
}

/** The names of responses that several operations share, by status. */
export const statusNames: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  408: 'RequestTimeout',
  413: 'ContentTooLarge',
  415: 'UnsupportedMediaType',
  429: 'TooManyRequests',
  431: 'HeadersTooLarge',
  500: 'InternalServerError',
  503: 'ServiceUnavailable',
  504: 'GatewayTimeout',
  507: 'InsufficientStorage',
}

/** The part of the contract that applies to every operation. */
export const introduction = `Versioned, isolated workspaces. Sessions have a virtual file system with fork, checkpoint, \
restore and diff. They also have review, locks, a cache, messages, and git import and commit.

## Requests and responses

- Bodies are JSON in UTF-8, with \`Content-Type: application/json\`. A request may omit the body if none of its fields \
is required. Unknown fields are ignored, except in the operations of a batch and in chunks, where they are rejected.
- A response has all of its fields. Later versions may add fields. A response without content is \`{}\`.
- \`int64\` is a string of decimal digits, from 0 to 2^63 − 1. Requests may also use a JSON number up to 2^53 − 1.
- Bytes are base64 with padding. Requests may also use the URL-safe alphabet and omit the padding.
- Times are RFC 3339. Times in responses are UTC, in milliseconds.
- Path parameters are percent-encoded once; \`%2F\` is a character of a parameter.
- Listings are split into pages. \`pageSize\` is ${limits.pageSizeDefault} by default and at most \
${limits.pageSizeMax}. An empty \`nextPageToken\` marks the last page; any other value is the \`pageToken\` of the next \
request.
- GET routes other than streams also accept HEAD. Every route accepts OPTIONS.

## Errors

A failed request returns a \`Status\`. Its \`code\` is a standard RPC status code, which shows how to react. For 10 \
(ABORTED), read the state again and retry. For 14 (UNAVAILABLE), retry later. For 9 (FAILED_PRECONDITION), a retry does \
not help. The \`reason\` in \`details\` is the specific cause. Each response lists its possible reasons as \
\`x-reasons\`. Codes and reasons are stable, messages are not, and later versions may add reasons. A path that does not \
exist returns ROUTE_NOT_FOUND (404), and a method that the path does not have returns METHOD_NOT_ALLOWED (405). Ids of \
other tenants return the same errors as ids that do not exist.

## Limits

The table has the defaults, which the service may change. The limit of a single field is in its description.

| Item | Limit |
| --- | --- |
| JSON body | ${inBytes(http.bodyBytes)} |
| Content in one response, before base64 encoding | ${inBytes(http.responseContentBytes)} |
| Concurrent requests | ${http.concurrentRequests} |
| Duration of a request, except for streams and lock waits | ${http.requestMs / 1000} s |
| Nesting of JSON | ${jsonLimits.depth} |
| Size of a file | ${inBytes(limits.fileBytes)} |
| Cache of a session: keys and values | ${inBytes(limits.cacheBytes)}, ${limits.cacheEntries} entries |
| Annotations, approvals and file locks of a session | ${limits.annotations} each |
| Subscriptions and lock waits of a session | ${limits.busSubscribers} each |
| Queued messages of one subscription | ${inBytes(limits.busWaitingBytes)} |
| Secrets of a session | ${limits.secrets} |

## Extensions

Operations and fields marked \`x-extension: true\` are additions. No other operation depends on them.`

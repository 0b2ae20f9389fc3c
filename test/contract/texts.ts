import { inBytes } from '../../src/engine/contract.js'
import { limits } from '../../src/engine/index.js'
import type { HttpReason } from '../../src/adapters/http/http-error.js'
import { defaultHttpLimits as http, jsonLimits } from '../../src/adapters/http/limits.js'

/** What the reasons of the adapter itself mean. */
export const reasonMeanings: Readonly<Record<HttpReason, string>> = {
  BODY_TOO_LARGE: 'The body is over the limit of its route; `limit` gives it.',
  DEADLINE_EXCEEDED: 'There was no answer in time; the work goes on, and the answer may be there later.',
  HEADERS_TOO_LARGE: 'The headers are too long.',
  HOST_NOT_ALLOWED: 'The service is not to be called by this host name.',
  INVALID_ARGUMENT: 'An argument has the wrong type or form; `field` names it.',
  LOCK_TIMEOUT: 'The lock was not free within the longest wait that the service allows; `limit` gives it.',
  METHOD_NOT_ALLOWED: 'The path has no such method; the header `Allow` lists those that it has.',
  ORIGIN_NOT_ALLOWED: 'Pages of this origin may not call the service.',
  QUOTA: 'There are as many of these as there may be, or too many requests at once; `limit` says how many.',
  REQUEST_TIMEOUT: 'The request came too slowly.',
  ROUTE_NOT_FOUND: 'There is no such path.',
  TOO_LARGE: 'A value is over its stated limit; `limit` gives it.',
  UNAUTHENTICATED: 'There is no token, or it is not known.',
  UNAVAILABLE: 'The service is about to end, or cannot do this now.',
  UNSUPPORTED_MEDIA_TYPE: 'The body has another type than the route takes.',
}

/** What a response of this status is called, where several operations have the same. */
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

/** What holds for every operation. */
export const introduction = `Versioned, isolated workspaces: sessions over a virtual file system, with fork, checkpoint, \
restore and diff, review, locks, cache, messages, and import and commit by git.

## Requests and responses

- Bodies are JSON in UTF-8, with \`Content-Type: application/json\`; a body may be left out where no field of it is \
required. Fields that are not known are passed over, but in the operations of a batch and in chunks, where they are \
refused.
- All fields of a response are there; further ones may come. A response without content is \`{}\`.
- \`int64\` is a string of decimal digits, from 0 to 2^63 − 1. In requests a JSON number is taken too, as long as it is \
exact (up to 2^53 − 1).
- Bytes are base64 with padding. In requests the alphabet for URLs and missing padding are taken too.
- Times are RFC 3339; those of responses are UTC in milliseconds.
- Parameters of the path are percent-encoded once; \`%2F\` is a character of a parameter.
- Listings come in pages: \`pageSize\` is ${limits.pageSizeDefault} by default and ${limits.pageSizeMax} at most. An \
empty \`nextPageToken\` is the end; any other is the \`pageToken\` of the next request.
- GET routes other than streams answer HEAD too, and every route answers OPTIONS.

## Errors

A failed request gives a \`Status\`. Its \`code\` is a standard RPC status code and says what can be done: 10 (ABORTED) \
is to read again and retry, 9 (FAILED_PRECONDITION) will not get better by a retry, 14 (UNAVAILABLE) is to be tried \
later. The \`reason\` in \`details\` says what went wrong in particular; each response lists the reasons that it may \
have as \`x-reasons\`. Codes and reasons are stable, messages are not, and further reasons may come. A path that does \
not exist is ROUTE_NOT_FOUND (404), a method that a path does not have METHOD_NOT_ALLOWED (405). Ids of other tenants \
are answered as ids that do not exist.

## Limits

Those of the table are the defaults, which the service may change; those of single values stand with them.

| What | Limit |
| --- | --- |
| Body of JSON | ${inBytes(http.bodyBytes)} |
| Content in one response, before it becomes base64 | ${inBytes(http.responseContentBytes)} |
| Requests at once | ${http.concurrentRequests} |
| Time of a request, without streams and waits for locks | ${http.requestMs / 1000} s |
| Depth of JSON | ${jsonLimits.depth} |
| Size of a file | ${inBytes(limits.fileBytes)} |
| Keys and values of the cache of a session | ${inBytes(limits.cacheBytes)}, ${limits.cacheEntries} entries |
| Annotations, approvals, file locks of a session | ${limits.annotations} each |
| Subscriptions, and waits for locks, of a session | ${limits.busSubscribers} each |
| Waiting messages of one subscription | ${inBytes(limits.busWaitingBytes)} |
| Secrets of a session | ${limits.secrets} |

## Extensions

Operations and fields marked \`x-extension: true\` are additions; nothing else depends on them.`

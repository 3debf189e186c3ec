/* base/list.h - L0. A circular doubly-linked list whose nodes lie inside the objects that they link. Not thread-safe:
 * one owner uses a list, or the holder of a lock. */
#ifndef HK_BASE_LIST_H
#define HK_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* A node outside every list has next == NULL, and no node of a list leads to it, which static analysis cannot see. An
 * empty list is a node that links to itself. */
typedef struct hk_list {
  struct hk_list *next;
  struct hk_list *previous;
} hk_list_t;

HK_INLINE void hk_list_init(hk_list_t *list) { list->next = list->previous = list; }
HK_INLINE bool hk_list_is_empty(const hk_list_t *list) { return list->next == list; }
HK_INLINE bool hk_list_is_linked(const hk_list_t *node) { return node->next != NULL; }

HK_INLINE void hk_list_insert_after(hk_list_t *where, hk_list_t *node) {
  node->next = where->next;
  node->previous = where;
  where->next->previous = node;
  where->next = node;
}

HK_INLINE void hk_list_push_front(hk_list_t *list, hk_list_t *node) { hk_list_insert_after(list, node); }
HK_INLINE void hk_list_push_back(hk_list_t *list, hk_list_t *node) { hk_list_insert_after(list->previous, node); }

HK_INLINE void hk_list_remove(hk_list_t *node) {
  node->next->previous = node->previous; /* NOLINT(clang-analyzer-core.NullDereference): see hk_list_t */
  node->previous->next = node->next;
  node->next = node->previous = NULL;
}

#endif /* HK_BASE_LIST_H */

/* heap/part.c - L4. See part.h. */
#include "heap/part.h"

#include "base/count.h"
#include "heap/heap_check.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/sample_countdown.h"
#include "heap/span.h"
#include "heap/spare.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/shard.h"
#include "space/class_slabs.h"
#include "space/meta.h"
#include "space/superslab.h"

/* The table of a thread that uses no named heap or tag. Never written. Its `base` is NULL: the address of the empty
 * heap would cost a relocation. */
static const hk_part_table_t no_table;
#define NO_TABLE ((hk_part_table_t *)&no_table)

HK_THREAD_LOCAL hk_part_table_t *hk_part_table = (hk_part_table_t *)&no_table;

/* Guarded by hk_lock_heap_pool. Each changes by one store, so a child of fork finds them whole. Parts through
 * part.next. */
static hk_heap_t *first_unused;
static hk_part_table_t *first_free_table;

const hk_heap_t *hk_part_base_of(const hk_part_table_t *table, const hk_heap_t *heap) {
  return hk_heap_is_part(heap) ? table->base : heap;
}

/* ---- Tables. */

static hk_part_table_t *take_table(void) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_part_table_t *table = first_free_table;
  if (table != NULL) first_free_table = table->next_free;
  hk_lock_release(hk_lock_heap_pool);
  if (table == NULL) table = hk_meta_alloc(sizeof *table);
  if (table == NULL) return NULL;
  for (unsigned i = 0; i < HK_PART_ENTRIES; i++) hk_store_relaxed(&table->entry[i].named, NULL);
  hk_list_init(&table->parts);
  table->base = HK_EMPTY_HEAP;
  table->tag_count = table->more_tags = 0;
  return table;
}

/* Returns NULL for a thread that keeps no heap, and when the system refuses. */
static hk_part_table_t *own_table(void) {
  if (HK_LIKELY(hk_part_table != NO_TABLE)) return hk_part_table;
  if (hk_thread_keeps_no_heap()) return NULL;
  hk_thread_lease_t lease = hk_thread_enter(); /* arms the exit handler, which gives the table back */
  if (lease.heap == NULL) return NULL;
  hk_thread_leave(lease);
  hk_part_table_t *table = take_table();
  if (table != NULL) hk_part_table = table;
  return table;
}

static hk_part_entry_t *entry_of(hk_part_table_t *table, const hk_named_t *named) {
  return (hk_part_entry_t *)((char *)table + named->entry_offset);
}

/* The end of another named heap may clear the entry at the same time: it compares with its own record. */
static void set_entry(hk_part_table_t *table, hk_named_t *named, hk_heap_t *part) {
  hk_part_entry_t *entry = entry_of(table, named);
  hk_store_relaxed(&entry->named, NULL);
  hk_keep_order();
  entry->part = part;
  hk_keep_order();
  hk_store_relaxed(&entry->named, named);
}

/* ---- Takes and makes parts. */

/* Chosen: parts of a named heap that a thread looks at without the lock. */
#define LOOKS_WITHOUT_LOCK 8

/* Returns the calling thread's part of the named heap; NULL when it has none. The part is in two lists, and the shorter
 * one bounds the search: the named heap's parts, from `part` on, and the thread's parts. A part that is found among the
 * thread's goes to their front, because the thread may soon look for it again. */
static hk_heap_t *find_own_locked(const hk_named_t *named, hk_heap_t *part) {
  hk_part_table_t *table = hk_part_table;
  hk_list_t *node = table->parts.next;
  for (; part != NULL && node != &table->parts; part = part->part.next, node = node->next) {
    hk_heap_t *own = HK_CONTAINER_OF(node, hk_heap_t, part.of_thread);
    if (hk_heap_named(own) == named) {
      hk_list_remove(node);
      hk_list_push_front(&table->parts, node);
      return own;
    }
    if (hk_load_relaxed(&part->part.thread_variable) == &hk_thread_heap) return part;
  }
  return NULL;
}

/* Reads the first parts without the lock: while the named heap lives, parts are only pushed to its list. */
static hk_heap_t *find_own(hk_named_t *named) {
  hk_heap_t *part = hk_load_acquire(&named->parts);
  for (unsigned i = 0; i < LOOKS_WITHOUT_LOCK && part != NULL; i++, part = part->part.next) {
    if (hk_load_relaxed(&part->part.thread_variable) == &hk_thread_heap) return part;
  }
  if (part == NULL || hk_part_table == NO_TABLE) return NULL;
  hk_lock_acquire(hk_lock_heap_pool);
  part = find_own_locked(named, part);
  hk_lock_release(hk_lock_heap_pool);
  return part;
}

static hk_heap_t *take_idle(hk_named_t *named) {
  for (hk_heap_t *part = hk_load_acquire(&named->parts); part != NULL; part = part->part.next) {
    if (hk_heap_life(part) == hk_heap_idle && hk_heap_take_this(part)) return part;
  }
  return NULL;
}

/* Returns a part that is no named heap's, or a new one, attached. */
static hk_heap_t *take_unused(void) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_heap_t *part = first_unused;
  if (part != NULL) first_unused = part->part.next;
  hk_lock_release(hk_lock_heap_pool);
  if (part == NULL) return hk_heap_create(hk_heap_part);
  hk_store_relaxed(&part->life, hk_heap_attached);
  return part;
}

static void put_unused(hk_heap_t *part) {
  hk_store_relaxed(&part->life, hk_heap_unused);
  hk_store_relaxed(&part->part.named, NULL);
  hk_heap_leave(part);
  hk_lock_acquire(hk_lock_heap_pool);
  part->part.next = first_unused;
  hk_keep_store_order();
  first_unused = part;
  hk_lock_release(hk_lock_heap_pool);
}

static hk_heap_t *make_part(hk_named_t *named) {
  hk_heap_t *part = take_unused();
  if (part == NULL) return NULL;
  hk_store_relaxed(&part->shard, (uint8_t)hk_shard_current());
  hk_heap_enter_taken(part); /* a child of fork may have given it to the pool, as a heap that is no part yet */
  hk_store_relaxed(&part->part.named, named);
  hk_heap_leave(part);
  if (hk_named_kind(named) == hk_named_tag && !hk_sample_countdown_begin_count(part)) {
    put_unused(part);
    return NULL;
  }
  hk_lock_acquire(hk_lock_heap_pool);
  part->part.next = hk_load_relaxed(&named->parts);
  hk_store_release(&named->parts, part); /* pairs with find_own and take_idle */
  hk_lock_release(hk_lock_heap_pool);
  return part;
}

static hk_heap_t *take_or_make(hk_named_t *named) {
  hk_heap_t *part = take_idle(named);
  return part != NULL ? part : make_part(named);
}

/* Gives the part its thread and its place in the table under one lock, so that hk_part_adopt finds both or neither. */
static void attach_part(hk_part_table_t *table, hk_heap_t *part) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_store_relaxed(&part->part.thread_variable, &hk_thread_heap);
  part->part.table = table;
  hk_list_push_front(&table->parts, &part->part.of_thread);
  hk_lock_release(hk_lock_heap_pool);
  hk_heap_keep(part);
}

HK_NOINLINE hk_heap_t *hk_part_acquire(hk_named_t *named) {
  hk_heap_t *part = hk_part_find(named);
  if (part != NULL) return part;
  hk_part_table_t *table = own_table();
  if (table == NULL) return NULL;
  part = find_own(named);
  if (part == NULL) {
    part = take_or_make(named);
    if (part == NULL) return NULL;
    attach_part(table, part);
  }
  set_entry(table, named, part);
  return part;
}

/* Gives back a part that the calling thread alone has. */
static void give_back(hk_heap_t *part) {
  hk_heap_enter(part);
  hk_thread_give_back(part);
}

/* ---- Switches. A signal handler that forks between the steps defers the repair until they are done. */

static hk_heap_t *switch_to(hk_heap_t *part) {
  hk_lock_defer_repair();
  hk_heap_t *before = hk_exchange_acquire(&hk_thread_heap, part); /* pairs with an examiner's compare-exchange */
  if (!hk_heap_is_part(before) && hk_part_table != NO_TABLE) hk_part_table->base = before;
  hk_lock_allow_repair();
  return before;
}

static void switch_back(hk_heap_t *before) {
  hk_lock_defer_repair();
  if (!hk_heap_is_part(before) && hk_part_table != NO_TABLE) hk_part_table->base = HK_EMPTY_HEAP;
  hk_store_relaxed(&hk_thread_heap, before);
  hk_lock_allow_repair();
}

static hk_heap_t *borrow(hk_named_t *named) { return hk_thread_keeps_no_heap() ? take_or_make(named) : NULL; }

hk_part_switch_t hk_part_enter(hk_named_t *named) {
  hk_part_switch_t entered = {.part = hk_part_acquire(named)};
  if (entered.part == NULL) {
    entered.part = borrow(named);
    entered.is_borrowed = true;
    if (entered.part == NULL) return entered;
    hk_heap_enter_taken(entered.part);
    hk_heap_leave(entered.part);
  }
  entered.before = switch_to(entered.part);
  return entered;
}

/* Since the switch the thread may have lost its own heap, or taken it up again. So the table says which heap that
 * is. */
void hk_part_leave(const hk_part_switch_t *entered) {
  if (entered->part == NULL) return;
  switch_back(hk_heap_is_part(entered->before) || hk_part_table == NO_TABLE ? entered->before : hk_part_table->base);
  if (entered->is_borrowed) give_back(entered->part);
}

hk_heap_t *hk_part_enter_base(void) {
  hk_heap_t *part = hk_thread_own();
  if (HK_LIKELY(!hk_heap_is_part(part))) return NULL;
  switch_back(hk_part_table != NO_TABLE ? hk_part_table->base : HK_EMPTY_HEAP);
  return part;
}

void hk_part_leave_base(hk_heap_t *part) {
  if (part != NULL) (void)switch_to(part);
}

/* ---- Tags. */

/* A push without an entry is only counted. While there are such pushes, each further one is only counted too. So they
 * are newer than all pushes with an entry. */
void hk_part_push_tag(hk_named_t *tag) {
  hk_heap_t *part = tag != NULL ? hk_part_acquire(tag) : NULL;
  hk_part_table_t *table = own_table();
  if (table == NULL) return;
  if (table->tag_count == HK_PART_TAGS_MAX || table->more_tags > 0) {
    table->more_tags++;
    return;
  }
  table->tag[table->tag_count++] = (hk_part_tag_t){tag, part};
  if (part != NULL) (void)switch_to(part);
}

/* Switches the thread to the part of its innermost tag, or to its own heap. */
static void follow_tags(hk_part_table_t *table) {
  unsigned i = table->tag_count;
  while (i > 0 && table->tag[i - 1].part == NULL) i--;
  if (i > 0) {
    (void)switch_to(table->tag[i - 1].part);
  } else if (hk_heap_is_part(hk_thread_own())) {
    switch_back(table->base);
  }
}

/* Sends the blocks of other heaps that the thread freed while the part was its heap. The part would keep them while the
 * thread sleeps. */
static void send_batches(hk_heap_t *part) {
  if (hk_load_relaxed(&part->batch_count) == 0) return;
  hk_heap_enter(part);
  hk_remote_flush(part);
  hk_heap_leave(part);
}

static void remove_tag_at(hk_part_table_t *table, unsigned i) {
  hk_heap_t *part = table->tag[i].part;
  table->tag_count--;
  for (; i < table->tag_count; i++) table->tag[i] = table->tag[i + 1];
  follow_tags(table);
  if (part != NULL) send_batches(part);
}

void hk_part_pop_tag(void) {
  hk_part_table_t *table = hk_part_table;
  if (table == NO_TABLE) return;
  if (table->more_tags > 0) {
    table->more_tags--;
  } else if (table->tag_count > 0) {
    remove_tag_at(table, table->tag_count - 1);
  }
}

/* Where no entry has the tag, takes a push without an entry for one of it. So as many removals as pushes end all
 * pushes. */
void hk_part_remove_tag(const hk_named_t *tag) {
  hk_part_table_t *table = hk_part_table;
  if (table == NO_TABLE) return;
  unsigned i = table->tag_count;
  while (i > 0 && table->tag[i - 1].named != tag) i--;
  if (i > 0) {
    remove_tag_at(table, i - 1);
  } else if (table->more_tags > 0) {
    table->more_tags--;
  }
}

/* ---- Visits, the end of a thread, and the end of a named heap. A part without a thread, but whose life is not idle,
 * belongs to the thread that withdrew it. */

static void withdraw_locked(hk_heap_t *part) {
  hk_list_remove(&part->part.of_thread);
  hk_store_relaxed(&part->part.thread_variable, NULL);
}

/* Takes the first part out of the table. Returns NULL when there is none. */
static hk_heap_t *withdraw_first(hk_part_table_t *table) {
  hk_heap_t *part = NULL;
  hk_lock_acquire(hk_lock_heap_pool);
  if (!hk_list_is_empty(&table->parts)) {
    part = HK_CONTAINER_OF(table->parts.next, hk_heap_t, part.of_thread);
    withdraw_locked(part);
  }
  hk_lock_release(hk_lock_heap_pool);
  return part;
}

/* Puts a withdrawn part back into its thread's table. It had no thread meanwhile, so a child of fork has made it idle:
 * hk_heap_keep makes it the thread's again. That happens under the lock, because the end of the named heap may take the
 * part afterwards. */
static void bring_back(hk_part_table_t *table, hk_heap_t *part) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_store_relaxed(&part->part.thread_variable, &hk_thread_heap);
  part->part.table = table;
  hk_list_push_back(&table->parts, &part->part.of_thread);
  hk_heap_keep(part);
  hk_lock_release(hk_lock_heap_pool);
}

static void visit_one(hk_heap_t *part, void (*visit)(hk_heap_t *part)) {
  hk_heap_enter(part);
  visit(part);
  hk_heap_leave(part);
}

static size_t count_of(const hk_part_table_t *table) {
  size_t count = 0;
  hk_lock_acquire(hk_lock_heap_pool);
  for (const hk_list_t *node = table->parts.next; node != &table->parts; node = node->next) count++;
  hk_lock_release(hk_lock_heap_pool);
  return count;
}

void hk_part_visit_own(void (*visit)(hk_heap_t *part)) {
  hk_part_table_t *table = hk_part_table;
  if (table == NO_TABLE) return;
  for (size_t left = count_of(table); left > 0; left--) {
    hk_heap_t *part = withdraw_first(table);
    if (part == NULL) return;
    visit_one(part, visit);
    bring_back(table, part);
  }
}

void hk_part_visit(hk_named_t *named, void (*visit)(hk_heap_t *part)) {
  hk_heap_t *own = find_own(named);
  if (own != NULL) {
    hk_lock_acquire(hk_lock_heap_pool);
    withdraw_locked(own);
    hk_lock_release(hk_lock_heap_pool);
    visit_one(own, visit);
    bring_back(hk_part_table, own);
  }
  for (hk_heap_t *part = hk_load_acquire(&named->parts); part != NULL; part = part->part.next) {
    if (hk_heap_life(part) != hk_heap_idle || !hk_heap_take_this(part)) continue;
    hk_heap_enter_taken(part);
    visit(part);
    hk_heap_leave(part);
    hk_remote_give_back(part);
  }
}

void hk_part_on_exit(void) {
  hk_part_table_t *table = hk_part_table;
  if (table == NO_TABLE) return;
  if (hk_heap_is_part(hk_thread_own())) switch_back(table->base);
  hk_part_table = NO_TABLE;
  for (hk_heap_t *part; (part = withdraw_first(table)) != NULL;) give_back(part);
  hk_lock_acquire(hk_lock_heap_pool);
  table->next_free = first_free_table;
  hk_keep_store_order();
  first_free_table = table;
  hk_lock_release(hk_lock_heap_pool);
}

/* Takes a part from its thread, which does not use it. Returns false when no thread has it. */
static bool take_from_thread(hk_named_t *named, hk_heap_t *part) {
  hk_lock_acquire(hk_lock_heap_pool);
  bool is_taken = hk_load_relaxed(&part->part.thread_variable) != NULL;
  if (is_taken) {
    hk_named_t *expected = named;
    withdraw_locked(part);
    (void)hk_compare_exchange_acquire(&entry_of(part->part.table, named)->named, &expected, NULL);
  }
  hk_lock_release(hk_lock_heap_pool);
  return is_taken;
}

/* Returns whether a thread that vanished in a fork had the part, or was visiting it. In a child of _Fork the part stays
 * an orphan: where it is busy or has no thread, the vanished thread was visiting it. */
static bool is_out_of_reach(hk_heap_t *part) {
  hk_heap_life_t life = hk_heap_life(part);
  bool was_visited = hk_load_relaxed(&part->is_busy) || hk_load_relaxed(&part->part.thread_variable) == NULL;
  return life == hk_heap_lost || (life == hk_heap_orphan && was_visited);
}

/* Chosen: the yields before the caller sleeps between looks. A thread of lower priority that shares its processor runs
 * only while it sleeps. */
#define CLAIM_YIELDS 64

/* Makes the part the caller's. Waits for a thread that drains or purges it. Returns false when it is out of reach. */
static bool claim_part(hk_named_t *named, hk_heap_t *part) {
  for (unsigned turn = 0; !is_out_of_reach(part); turn++) {
    if (take_from_thread(named, part) || hk_heap_take_this(part)) return true;
    if (turn < CLAIM_YIELDS || !hk_os_pause(1)) hk_os_yield();
  }
  return false;
}

/* Chosen: spans that go back in one call. */
#define RELEASED_AT_ONCE 64

static void release_some_spans(hk_heap_t *part) {
  hk_list_t rows;
  hk_list_init(&rows);
  for (unsigned i = 0; i < RELEASED_AT_ONCE && !hk_list_is_empty(&part->part.spans); i++) {
    hk_slab_t *span = HK_CONTAINER_OF(part->part.spans.next, hk_slab_t, part_link);
    hk_list_remove(&span->part_link);
    hk_slab_retire(span, span->slab_count);
    if (HK_UNLIKELY(hk_short_span_is(span))) {
      span->link = (hk_list_t){NULL, NULL}; /* it is in the partial list, which the end of the part drops */
      hk_short_span_release(span);
    } else if (HK_HARDENED) {
      hk_class_slabs_put_with_blocks(span, span->class_index);
    } else {
      span->is_zero = false;
      hk_list_push_back(&rows, &span->link);
    }
  }
  if (!hk_list_is_empty(&rows)) hk_superslab_release_all(&rows);
}

static void end_part(hk_named_t *named, hk_heap_t *part) {
  hk_remote_flush(part);
  hk_spare_flush(part);
  uint32_t slabs = hk_load_relaxed(&part->span_slabs);
  while (!hk_list_is_empty(&part->part.spans)) release_some_spans(part);
  hk_named_uncharge(named, slabs * HK_SLAB_BYTES);
  hk_heap_reset(part);
  put_unused(part);
}

/* A part that is out of reach only loses its name: a vanished thread has left its lists in the middle of a change. */
void hk_part_end_all(hk_named_t *named, void (*visit)(hk_heap_t *part, void *context), void *context) {
  hk_heap_t *part = hk_load_acquire(&named->parts), *next;
  hk_store_relaxed(&named->parts, NULL);
  for (; part != NULL; part = next) {
    next = part->part.next;
    if (!claim_part(named, part)) {
      hk_store_relaxed(&part->part.named, NULL);
      continue;
    }
    hk_heap_enter(part);
    if (visit != NULL) visit(part, context);
    end_part(named, part);
  }
}

/* ---- Fork. */

void hk_part_adopt(hk_part_table_t *table, const hk_forker_t *forker) {
  if (table == NO_TABLE) return;
  hk_list_init(&table->parts);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (!hk_heap_is_part(heap) || hk_load_relaxed(&heap->part.thread_variable) != forker->variable) continue;
    heap->part.table = table;
    hk_list_push_front(&table->parts, &heap->part.of_thread);
  }
}

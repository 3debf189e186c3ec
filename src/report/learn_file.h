/* report/learn_file.h - L9. The file that HAKMEM_LEARN_FILE names. It carries what the learner knows from one run to
 * the next (policy/learn_record.h). */
#ifndef HK_REPORT_LEARN_FILE_H
#define HK_REPORT_LEARN_FILE_H

/* At the start: loads the file. A missing file is no error. A file that is of no use is ignored with a warning. */
void hk_learn_file_load(void);

/* At the end: saves the file if the learner has changed since. Only the process that loaded the file saves it, not its
 * children. On failure it prints a warning and changes nothing else. */
void hk_learn_file_save(void);

#endif /* HK_REPORT_LEARN_FILE_H */

/** Bar that shows a value as a share of the largest one; anything above 0 is visible. */
export function Track({ share }: { share: number }) {
  return (
    <span class="track">
      <span class="track-fill" style={{ width: `${share > 0 ? Math.max(1, share * 100) : 0}%` }} />
    </span>
  );
}
